import { z } from 'zod';
import { exportFormatNames } from '../../http/formats/negotiation.ts';
import { formatParameters } from '../../http/request/format-parameters.ts';
import type { ResourceServices } from '../../http/resource-services.ts';
import { listOf } from '../../http/response/wire.ts';
import { type ResourceRoutes, type Route, route } from '../../http/route.ts';
import { inSnapshot, withConnection } from '../../postgres/connection/pool.ts';
import { untilRead, withReadDeadline } from '../../postgres/connection/read-ahead.ts';
import { visibleInstant } from '../../postgres/connection/visible-instant.ts';
import { queryPostgres, readRecords, recordRoute, serializePage } from '../record/record-routes.ts';
import { recordBatches, recordListTable, recordTable } from '../record/record-table.ts';
import {
  customerFilterParameters,
  customerList,
  customerListParameters,
} from './customer-parameters.ts';
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

const table = recordTable(customerInDetail);

/** An addition: all customers in one snapshot, as single customers are shown. */
export const customerExport = (services: ResourceServices): Route =>
  route({
    url: '/customers/export',
    summary: 'All customers that match, as a file',
    description:
      'The fields are those of a single customer. Rows are in no particular order. To poll ' +
      'changes later, send `X-Data-As-Of` of the file as `updated_since` of the list.',
    isAddition: true,
    path: z.strictObject({}),
    query: z.strictObject({
      ...customerFilterParameters,
      ...formatParameters(exportFormatNames),
    }),
    response: z.never(),
    kind: 'export',
    name: 'customers',
    isLive: true,
    open: async ({ query, organizationId }, output, take, signal) => {
      const { exportDatabase, writeTable } = services;
      const list = customerList(query, organizationId);
      const { taken } = await withReadDeadline(signal, (either) =>
        withConnection(
          exportDatabase,
          async (connection) => {
            // Before the snapshot: whatever commits in between is later.
            const asOf = await visibleInstant(connection, organizationId);
            return inSnapshot(connection, () =>
              untilRead(
                recordBatches(connection, customerInDetail, list, services, either),
                (batches) =>
                  take({ result: writeTable({ table, batches }, output, either), asOf }, either),
              ),
            );
          },
          either,
        ),
      );
      return taken;
    },
  });
