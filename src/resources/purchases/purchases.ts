import { z } from 'zod';
import { UnknownCursorError } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters, PurchaseListQuery } from '../../domain/purchase-query.ts';
import type { ResponseTable } from '../../http/formats/table.ts';
import { type Cursor, encodeCursor, invalidCursor, placeIn } from '../../http/request/cursor.ts';
import { id, type PageParameters } from '../../http/request/parameters.ts';
import { notFound } from '../../http/response/errors.ts';
import { listOf } from '../../http/response/wire.ts';
import { type ApiRequest, type ResourceRoutes, route } from '../../http/route.ts';
import { byCreation } from '../../postgres/lists/keyset-list.ts';
import { customer } from '../customers/customer-wire.ts';
import { hasRecord, noRecord, queryPostgres } from '../record/record-routes.ts';
import { readFilters } from './purchase-filters.ts';
import { customerPurchaseListParameters, purchaseListParameters } from './purchase-parameters.ts';
import { purchaseTable } from './purchase-table.ts';
import { purchaseSchema, serializePurchase } from './purchase-wire.ts';

export const purchaseListSchema = listOf(purchaseSchema);

const purchaseListTable: ResponseTable<z.output<typeof purchaseListSchema>> = {
  ...purchaseTable,
  read: ({ data, has_more: hasMore }) => ({ rows: data, hasMore }),
};

export const purchases: ResourceRoutes = () => [
  route({
    url: '/purchases',
    summary: 'Purchases, newest first',
    description:
      "`payment_status` says whether a purchase is paid; `status` is the order's own. " +
      'To count or sum, use the report.',
    path: z.strictObject({}),
    query: purchaseListParameters,
    response: purchaseListSchema,
    kind: 'snapshot',
    table: purchaseListTable,
    handle: async (request) => listPurchases(request, await readFilters(request)),
  }),

  route({
    url: '/purchases/:purchase_id',
    summary: 'One purchase',
    description:
      "`payment_status` says whether the purchase is paid; `status` is the order's own. Amounts " +
      'are in the smallest unit of `currency`.',
    path: z.strictObject({ purchase_id: id('purchase') }),
    query: z.strictObject({}),
    response: purchaseSchema,
    kind: 'snapshot',
    handle: async ({ path, organizationId, purchases, signal, client }) => {
      const id = path.purchase_id;
      const { result, ...shown } = await purchases.get(organizationId, id, signal, client);
      if (result === null) throw notFound('purchase', { asOf: shown.asOf });
      return { result: serializePurchase(result), ...shown };
    },
  }),
];

export const customerPurchases: ResourceRoutes = (services) => [
  route({
    url: '/customers/:customer_id/purchases',
    summary: "One customer's purchases, newest first",
    description:
      'Without `status`, purchases of every payment status are listed, also abandoned ones. A ' +
      'customer that does not exist is `404`; one without purchases has an empty list.',
    path: z.strictObject({ customer_id: id('customer') }),
    query: customerPurchaseListParameters,
    response: purchaseListSchema,
    kind: 'snapshot',
    table: purchaseListTable,
    require: async (request) => {
      const { path, organizationId } = request;
      const exists = await queryPostgres(services, request, (connection) =>
        hasRecord(connection, customer, organizationId, path.customer_id),
      );
      if (!exists) throw noRecord(customer);
    },
    handle: async (request) => {
      const filters = await readFilters(request);
      return listPurchases(request, { ...filters, customerId: request.path.customer_id });
    },
  }),
];

/** The id alone if the cursor does not say where the purchase was. */
function placeOf(cursor: Cursor | undefined): PurchaseListQuery['startingAfter'] {
  if (cursor === undefined) return undefined;
  const createdAt = placeIn(cursor, byCreation);
  return createdAt === undefined ? cursor.id : { id: cursor.id, createdAt };
}

async function listPurchases(
  { query, organizationId, purchases, signal, client }: ApiRequest<unknown, PageParameters>,
  filters: PurchaseFilters,
) {
  const startingAfter = placeOf(query.starting_after);
  const listQuery = { filters, limit: query.limit, startingAfter };
  const { result, ...shown } = await purchases
    .list(organizationId, listQuery, signal, client)
    .catch((error: unknown) => {
      throw error instanceof UnknownCursorError ? invalidCursor() : error;
    });
  const last = result.hasMore ? result.purchases.at(-1) : undefined;
  const next =
    last === undefined
      ? null
      : encodeCursor('purchase', last.id, { column: byCreation.column, value: last.created_at });
  const data = result.purchases.map(serializePurchase);
  return { result: { data, has_more: result.hasMore }, ...shown, next };
}
