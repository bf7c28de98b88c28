import { z } from 'zod';
import { id, oneOf, pageParameters, text as textOf } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { byCreation, byUpdate } from '../postgres/keyset-list.ts';
import { defineRecord, htmlUrl, instant, integer, optional, text } from './record.ts';
import { answerList, answerSingle } from './record-responses.ts';

/** Section 2.7. */
const segment = defineRecord('Segment', 'segment', 'segments', {
  created_at: instant,
  updated_at: instant,
  html_url: htmlUrl('segment'),
  name: optional(text),
  description: optional(text),
  customer_count: integer,
});

export function segments(services: Services): readonly Route[] {
  return [
    route({
      url: '/segments',
      summary: 'Segments, newest first',
      path: z.strictObject({}),
      query: z.strictObject({
        ...pageParameters('segment'),
        q: textOf({ least: 1, most: 256 }).optional(),
        sort: oneOf(['updated']).optional(),
      }),
      response: listOf(segment.schema),
      etag: false,
      handle: async ({ query, organizationId, signal }) => {
        const order = query.sort === 'updated' ? byUpdate : byCreation;
        const list = { organizationId, order, search: query.q };
        return answerList(services, segment, list, query, signal);
      },
    }),

    route({
      url: '/segments/:segment_id',
      summary: 'One segment',
      path: z.strictObject({ segment_id: id('segment') }),
      query: z.strictObject({}),
      response: segment.schema,
      etag: true,
      handle: async ({ path, organizationId, signal }) =>
        answerSingle(services, segment, organizationId, path.segment_id, signal),
    }),
  ];
}
