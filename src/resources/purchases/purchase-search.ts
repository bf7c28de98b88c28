import sql, { raw } from 'sql-template-tag';
import { z } from 'zod';
import { type PurchaseRow, purchaseFromRow } from '../../domain/purchase.ts';
import { maxTextLength, pageLimits } from '../../domain/purchase-query.ts';
import { integer, text } from '../../http/request/parameters.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { visibleInstant } from '../../postgres/connection/visible-instant.ts';
import { purchaseSelectList } from '../../postgres/lists/purchase-select-list.ts';
import { queryPostgres } from '../record/record-routes.ts';
import { serializePurchase } from './purchase-wire.ts';
import { purchaseListSchema } from './purchases.ts';

/** An addition: purchases by order number, from Postgres, whose index has it. */
export const purchaseSearch: ResourceRoutes = (services) => [
  route({
    url: '/purchases/search',
    summary: 'Purchases with an order number, newest first',
    description:
      'The number as the shop writes it, with or without `#` before it. Several integrations may ' +
      'have the same number. Customers are found by `q` of their list.',
    isAddition: true,
    path: z.strictObject({}),
    query: z.strictObject({
      order_number: text({ min: 1, max: maxTextLength }),
      limit: integer(pageLimits),
    }),
    response: purchaseListSchema,
    showsInstant: true,
    handle: async (request) => {
      const { organizationId } = request;
      const { order_number, limit } = request.query;
      const number = order_number.trim().replace(/^#/, '');
      const { text, values } = sql`
        select ${raw(purchaseSelectList)} from purchases
        where organization_id = ${organizationId}
          and order_number = any(${[number, `#${number}`]}::text[])
        order by created_at desc, id desc
        limit ${limit + 1}`;
      const { asOf, rows } = await queryPostgres(services, request, async (connection) => {
        // Before the rows: whatever commits in between is later.
        const asOf = await visibleInstant(connection, organizationId);
        const found = await connection.query<bigint[]>({ text, values, rowMode: 'array' });
        return { asOf, rows: found.rows };
      });
      const data = rows
        .slice(0, limit)
        .map((row) => serializePurchase(purchaseFromRow(row as PurchaseRow)));
      return { result: { data, has_more: rows.length > limit }, asOf };
    },
  }),
];
