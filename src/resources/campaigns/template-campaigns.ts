import type { ResourceRoutes } from '../../http/route.ts';
import { byUpdate } from '../../postgres/lists/keyset-list.ts';
import { choice, defineRecord, flag, htmlUrl, instant, optional, text } from '../record/record.ts';
import { listRoute, recordRoute } from '../record/record-routes.ts';
import { listOfObjects, objectOf } from '../stored-json.ts';
import { campaignDescriptions } from './metrics.ts';

/** Section 2.12. */
const templateCampaign = defineRecord(
  'TemplateCampaign',
  'template_campaign',
  'template_campaigns',
  {
    status: optional(text),
    channel: optional(choice(['whatsapp', 'sms'])),
    is_official: optional(flag),
    scheduling_type: optional(text),
    recipient_type: optional(text),
    created_at: instant,
    updated_at: instant,
    name: optional(text),
    scheduled_for: optional(instant),
    sent_at: optional(instant),
    templates: optional(
      listOfObjects({
        id: 'text',
        order: 'integer',
        weight: 'integer',
        name: 'text',
        category: 'text',
        language: 'text',
      }),
    ),
    metrics: optional(
      objectOf({
        recipients: 'integer',
        sent: 'integer',
        delivered: 'integer',
        read: 'integer',
        failed: 'integer',
      }),
    ),
    html_url: htmlUrl('template_campaign'),
  },
);

const url = '/template-campaigns';

export const templateCampaigns: ResourceRoutes = (services) => [
  // An addition: the specification has only the single resource.
  listRoute(services, templateCampaign, byUpdate, {
    url,
    isAddition: true,
    summary: 'WhatsApp and SMS campaigns, most recently updated first',
    description: campaignDescriptions.list,
  }),
  recordRoute(services, templateCampaign, {
    url,
    summary: 'One WhatsApp or SMS campaign',
    description: campaignDescriptions.record,
  }),
];
