import type { ResourceRoutes } from '../../http/route.ts';
import { byUpdate } from '../../postgres/lists/keyset-list.ts';
import { defineRecord, htmlUrl, instant, integer, optional, text } from '../record/record.ts';
import { listRoute, recordRoute } from '../record/record-routes.ts';

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

const url = '/flows';

const description = '`run_count` counts runs, not customers or purchases.';

export const flows: ResourceRoutes = (services) => [
  listRoute(services, flow, byUpdate, {
    url,
    summary: 'Automation flows, most recently updated first',
    description,
  }),
  recordRoute(services, flow, {
    url,
    summary: 'One automation flow',
    description,
  }),
];
