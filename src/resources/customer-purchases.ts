import { z } from 'zod';
import { id } from '../http/request/parameters.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { customer } from './customer-wire.ts';
import { purchaseList, purchaseListSchema, purchaseListTable } from './purchase-list-response.ts';
import { customerPurchaseListParameters, filtersFrom, listQuery } from './purchase-parameters.ts';
import { requireRow } from './record-responses.ts';

export function customerPurchases(services: Services): readonly Route[] {
  return [
    route({
      url: '/customers/:customer_id/purchases',
      summary: "One customer's purchases, newest first",
      path: z.strictObject({ customer_id: id('customer') }),
      query: customerPurchaseListParameters,
      response: purchaseListSchema,
      etag: false,
      showsSnapshot: true,
      table: purchaseListTable,
      require: async ({ path, organizationId, signal }) =>
        requireRow(services, customer, organizationId, path.customer_id, signal),
      handle: async ({ path, query, organizationId, purchases, signal, client }) => {
        const filters = { ...filtersFrom(query), customerId: path.customer_id };
        const question = listQuery(query, filters);
        return purchaseList(purchases.list(organizationId, question, signal, client));
      },
    }),
  ];
}
