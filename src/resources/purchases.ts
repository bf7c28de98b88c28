import { z } from 'zod';
import { id } from '../http/request/parameters.ts';
import { notFound } from '../http/response/errors.ts';
import { type Route, route } from '../http/route.ts';
import { purchaseList, purchaseListSchema, purchaseListTable } from './purchase-list-response.ts';
import { filtersFrom, listQuery, purchaseListParameters } from './purchase-parameters.ts';
import { purchaseOnTheWire, purchaseSchema } from './purchase-wire.ts';

export function purchases(): readonly Route[] {
  return [
    route({
      url: '/purchases',
      summary: 'Purchases, newest first',
      path: z.strictObject({}),
      query: purchaseListParameters,
      response: purchaseListSchema,
      etag: false,
      showsSnapshot: true,
      table: purchaseListTable,
      handle: async ({ query, organizationId, purchases, signal, client }) => {
        const question = listQuery(query, filtersFrom(query));
        return purchaseList(purchases.list(organizationId, question, signal, client));
      },
    }),

    route({
      url: '/purchases/:purchase_id',
      summary: 'One purchase',
      path: z.strictObject({ purchase_id: id('purchase') }),
      query: z.strictObject({}),
      response: purchaseSchema,
      etag: true,
      showsSnapshot: true,
      handle: async ({ path, organizationId, purchases, signal, client }) => {
        const { answer, asOf } = await purchases.get(
          organizationId,
          path.purchase_id,
          signal,
          client,
        );
        if (answer === null) throw notFound('purchase', { asOf });
        return { answer: purchaseOnTheWire(answer), asOf };
      },
    }),
  ];
}
