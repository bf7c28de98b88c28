import type { ResourceRoutes } from '../../http/route.ts';
import { byCreation } from '../../postgres/lists/keyset-list.ts';
import { defineRecord, instant, optional, text } from '../record/record.ts';
import { listRoute } from '../record/record-routes.ts';

/** Section 2.9. */
const attribute = defineRecord('Attribute', 'attribute', 'attributes', {
  name: optional(text),
  type: optional(text),
  created_at: instant,
  updated_at: instant,
  description: optional(text),
});

export const attributes: ResourceRoutes = (services) => [
  listRoute(services, attribute, byCreation, {
    url: '/attributes',
    summary: "Definitions of the customers' custom attributes, newest first",
    description: 'Definitions only. The values are in `attributes` of a single customer.',
  }),
];
