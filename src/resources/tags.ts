import { z } from 'zod';
import { id, pageParameters } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { byCreation } from '../postgres/keyset-list.ts';
import { defineRecord, instant, optional, text } from './record.ts';
import { answerList, answerSingle } from './record-responses.ts';

/** Section 2.8. */
const tag = defineRecord('Tag', 'tag', 'tags', {
  name: optional(text),
  color: optional(text),
  created_at: instant,
});

export function tags(services: Services): readonly Route[] {
  return [
    route({
      url: '/tags',
      summary: 'Tags, newest first',
      path: z.strictObject({}),
      query: z.strictObject(pageParameters('tag')),
      response: listOf(tag.schema),
      etag: false,
      handle: async ({ query, organizationId, signal }) =>
        answerList(services, tag, { organizationId, order: byCreation }, query, signal),
    }),

    route({
      url: '/tags/:tag_id',
      summary: 'One tag',
      path: z.strictObject({ tag_id: id('tag') }),
      query: z.strictObject({}),
      response: tag.schema,
      etag: true,
      handle: async ({ path, organizationId, signal }) =>
        answerSingle(services, tag, organizationId, path.tag_id, signal),
    }),
  ];
}
