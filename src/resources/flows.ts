import { z } from 'zod';
import { id, oneOf, pageParameters } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { byUpdate } from '../postgres/keyset-list.ts';
import { defineRecord, htmlUrl, instant, integer, optional, text } from './record.ts';
import { answerList, answerSingle } from './record-responses.ts';

/** Section 2.10. */
const flow = defineRecord('Flow', 'flow', 'flows', {
  status: optional(text),
  created_at: instant,
  updated_at: instant,
  html_url: htmlUrl('flow'),
  name: optional(text),
  description: optional(text),
  trigger_event_type: optional(text),
  origin: optional(text),
  run_count: optional(integer),
});

export function flows(services: Services): readonly Route[] {
  return [
    route({
      url: '/flows',
      summary: 'Automation flows, most recently updated first',
      path: z.strictObject({}),
      // The order is the same with `sort` and without.
      query: z.strictObject({ ...pageParameters('flow'), sort: oneOf(['updated']).optional() }),
      response: listOf(flow.schema),
      etag: false,
      handle: async ({ query, organizationId, signal }) =>
        answerList(services, flow, { organizationId, order: byUpdate }, query, signal),
    }),

    route({
      url: '/flows/:flow_id',
      summary: 'One automation flow',
      path: z.strictObject({ flow_id: id('flow') }),
      query: z.strictObject({}),
      response: flow.schema,
      etag: true,
      handle: async ({ path, organizationId, signal }) =>
        answerSingle(services, flow, organizationId, path.flow_id, signal),
    }),
  ];
}
