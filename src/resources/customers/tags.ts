import type { ResourceRoutes } from '../../http/route.ts';
import { byCreation } from '../../postgres/lists/keyset-list.ts';
import { defineRecord, instant, optional, text } from '../record/record.ts';
import { listRoute, recordRoute } from '../record/record-routes.ts';

/** Section 2.8. */
const tag = defineRecord('Tag', 'tag', 'tags', {
  name: optional(text),
  color: optional(text),
  created_at: instant,
});

const url = '/tags';

export const tags: ResourceRoutes = (services) => [
  listRoute(services, tag, byCreation, {
    url,
    summary: 'Tags, newest first',
    description:
      'Labels of customers. The customers of a tag are the list of customers with `tag_id`.',
  }),
  recordRoute(services, tag, {
    url,
    summary: 'One tag',
    description: 'The customers of a tag are the list of customers with `tag_id`.',
  }),
];
