import { z } from 'zod';
import { id, oneOf, pageParameters } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { byCreation, byTotalSpent } from '../postgres/keyset-list.ts';
import { customer } from './customer-wire.ts';
import { answerList, requireRow } from './record-responses.ts';

export function segmentCustomers(services: Services): readonly Route[] {
  return [
    route({
      url: '/segments/:segment_id/customers',
      summary: "One segment's customers, newest first",
      path: z.strictObject({ segment_id: id('segment') }),
      query: z.strictObject({
        ...pageParameters('customer'),
        sort: oneOf(['total_spent']).optional(),
      }),
      response: listOf(customer.schema),
      etag: false,
      handle: async ({ path, query, organizationId, signal }) => {
        const segment = { resource: 'segment', table: 'segments' } as const;
        await requireRow(services, segment, organizationId, path.segment_id, signal);
        const order = query.sort === 'total_spent' ? byTotalSpent : byCreation;
        const linkedTo = { relation: 'segment', id: path.segment_id } as const;
        return answerList(services, customer, { organizationId, order, linkedTo }, query, signal);
      },
    }),
  ];
}
