import { z } from 'zod';
import { id, oneOf, pageParameters } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { byUpdate } from '../postgres/keyset-list.ts';
import { choice, defineRecord, flag, htmlUrl, instant, optional, text } from './record.ts';
import { answerList, answerSingle } from './record-responses.ts';
import { listOfObjects, objectOf } from './stored-json.ts';

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

export function templateCampaigns(services: Services): readonly Route[] {
  return [
    // An addition: the specification has the single resource only.
    route({
      url: '/template-campaigns',
      isAddition: true,
      summary: 'WhatsApp and SMS campaigns, most recently updated first',
      path: z.strictObject({}),
      // The order is the same with `sort` and without.
      query: z.strictObject({
        ...pageParameters('template_campaign'),
        sort: oneOf(['updated']).optional(),
      }),
      response: listOf(templateCampaign.schema),
      etag: false,
      handle: async ({ query, organizationId, signal }) =>
        answerList(services, templateCampaign, { organizationId, order: byUpdate }, query, signal),
    }),

    route({
      url: '/template-campaigns/:template_campaign_id',
      summary: 'One WhatsApp or SMS campaign',
      path: z.strictObject({ template_campaign_id: id('template_campaign') }),
      query: z.strictObject({}),
      response: templateCampaign.schema,
      etag: true,
      handle: async ({ path, organizationId, signal }) =>
        answerSingle(services, templateCampaign, organizationId, path.template_campaign_id, signal),
    }),
  ];
}
