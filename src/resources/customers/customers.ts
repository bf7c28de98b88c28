import { z } from 'zod';
import { listOf } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { visibleInstant } from '../../postgres/connection/visible-instant.ts';
import { queryPostgres, readRecords, recordRoute, serializePage } from '../record/record-routes.ts';
import { recordListTable } from '../record/record-table.ts';
import { customerExport } from './customer-export.ts';
import { customerList, customerListParameters } from './customer-parameters.ts';
import { customer, customerInDetail } from './customer-wire.ts';

const url = '/customers';

export const customers: ResourceRoutes = (services) => [
  route({
    url,
    summary: 'Customers, newest first',
    description:
      'Also those without a purchase. `total_spent_in_cents` and `total_orders` are of paid ' +
      'purchases of all time. The best customers of a period are a report by `customer`.',
    path: z.strictObject({}),
    query: customerListParameters,
    response: listOf(customer.schema),
    table: recordListTable(customer),
    showsInstant: true,
    handle: async (request) => {
      const { query, organizationId } = request;
      const list = customerList(query, organizationId);
      const { asOf, page } = await queryPostgres(services, request, async (connection) => {
        // Before the page: whatever commits in between is later.
        const asOf = await visibleInstant(connection, organizationId);
        return { asOf, page: await readRecords(connection, customer, list, query) };
      });
      return { ...serializePage(services, customer, list, page), asOf };
    },
  }),
  customerExport(services),
  recordRoute(services, customerInDetail, {
    url,
    summary: 'One customer, with tags, attributes and address',
    description:
      "`total_spent_in_cents` is of paid purchases in the shop's most frequent currency; " +
      '`total_orders` counts paid purchases of all currencies.',
  }),
];
