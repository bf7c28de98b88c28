import type { ResourceRoutes } from '../../http/route.ts';
import { byUpdate } from '../../postgres/lists/keyset-list.ts';
import { defineRecord, htmlUrl, instant, optional, text } from '../record/record.ts';
import { listRoute, recordRoute } from '../record/record-routes.ts';
import { objectOf } from '../stored-json.ts';
import { campaignDescriptions } from './metrics.ts';

/** Section 2.11. */
const emailCampaign = defineRecord('EmailCampaign', 'email_campaign', 'email_campaigns', {
  status: optional(text),
  scheduling_type: optional(text),
  created_at: instant,
  updated_at: instant,
  html_url: htmlUrl('email_campaign'),
  name: optional(text),
  scheduled_for: optional(instant),
  sent_at: optional(instant),
  metrics: optional(
    objectOf({ sent: 'integer', delivered: 'integer', opened: 'integer', clicked: 'integer' }),
  ),
});

const url = '/email-campaigns';

export const emailCampaigns: ResourceRoutes = (services) => [
  listRoute(services, emailCampaign, byUpdate, {
    url,
    summary: 'Email campaigns, most recently updated first',
    description: campaignDescriptions.list,
  }),
  recordRoute(services, emailCampaign, {
    url,
    summary: 'One email campaign',
    description: campaignDescriptions.record,
  }),
];
