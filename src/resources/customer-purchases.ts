import sql from 'sql-template-tag';
import { z } from 'zod';
import { notFound } from '../http/errors.ts';
import { id } from '../http/parameters.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { firstRow } from '../postgres/pool.ts';
import { purchaseList, purchaseListSchema } from './purchase-answers.ts';
import { customerPurchaseListParameters, filtersFrom, listQuery } from './purchase-parameters.ts';

export function customerPurchases({ database, purchases: engine }: Services): readonly Route[] {
  return [
    route({
      url: '/customers/:customer_id/purchases',
      summary: "One customer's purchases, newest first",
      path: z.strictObject({ customer_id: id('customer') }),
      query: customerPurchaseListParameters,
      response: purchaseListSchema,
      etag: false,
      isDated: true,
      handle: async ({ path, query, organizationId, reply, signal }) => {
        const customer = await firstRow(
          database,
          sql`
          select id from customers
          where id = ${path.customer_id} and organization_id = ${organizationId}`,
        );
        if (customer === undefined) throw notFound('customer');
        const filters = { ...filtersFrom(query), customerId: path.customer_id };
        const question = listQuery(query, filters);
        return purchaseList(reply, engine.list(organizationId, question, signal));
      },
    }),
  ];
}
