import { z } from 'zod';
import { pageParameters } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { byCreation } from '../postgres/keyset-list.ts';
import { defineRecord, instant, optional, text } from './record.ts';
import { answerList } from './record-responses.ts';

/** Section 2.9. */
const attribute = defineRecord('Attribute', 'attribute', 'attributes', {
  name: optional(text),
  type: optional(text),
  created_at: instant,
  updated_at: instant,
  description: optional(text),
});

export function attributes(services: Services): readonly Route[] {
  return [
    route({
      url: '/attributes',
      summary: "Definitions of the customers' custom attributes, newest first",
      path: z.strictObject({}),
      query: z.strictObject(pageParameters('attribute')),
      response: listOf(attribute.schema),
      etag: false,
      handle: async ({ query, organizationId, signal }) =>
        answerList(services, attribute, { organizationId, order: byCreation }, query, signal),
    }),
  ];
}
