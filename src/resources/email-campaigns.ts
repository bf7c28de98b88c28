import { z } from 'zod';
import { id, oneOf, pageParameters } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { byUpdate } from '../postgres/keyset-list.ts';
import { defineRecord, htmlUrl, instant, optional, text } from './record.ts';
import { answerList, answerSingle } from './record-responses.ts';
import { objectOf } from './stored-json.ts';

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

export function emailCampaigns(services: Services): readonly Route[] {
  return [
    route({
      url: '/email-campaigns',
      summary: 'Email campaigns, most recently updated first',
      path: z.strictObject({}),
      // The order is the same with `sort` and without.
      query: z.strictObject({
        ...pageParameters('email_campaign'),
        sort: oneOf(['updated']).optional(),
      }),
      response: listOf(emailCampaign.schema),
      etag: false,
      handle: async ({ query, organizationId, signal }) =>
        answerList(services, emailCampaign, { organizationId, order: byUpdate }, query, signal),
    }),

    route({
      url: '/email-campaigns/:email_campaign_id',
      summary: 'One email campaign',
      path: z.strictObject({ email_campaign_id: id('email_campaign') }),
      query: z.strictObject({}),
      response: emailCampaign.schema,
      etag: true,
      handle: async ({ path, organizationId, signal }) =>
        answerSingle(services, emailCampaign, organizationId, path.email_campaign_id, signal),
    }),
  ];
}
