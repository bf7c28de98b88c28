import { z } from 'zod';
import { exportFormatNames } from '../../http/formats/negotiation.ts';
import { formatParameters } from '../../http/request/format-parameters.ts';
import type { ResourceServices } from '../../http/resource-services.ts';
import { type Route, route } from '../../http/route.ts';
import { inSnapshot, withConnection } from '../../postgres/connection/pool.ts';
import { untilRead, withReadDeadline } from '../../postgres/connection/read-ahead.ts';
import { visibleInstant } from '../../postgres/connection/visible-instant.ts';
import { recordBatches, recordTable } from '../record/record-table.ts';
import { customerFilterParameters, customerList } from './customer-parameters.ts';
import { customerInDetail } from './customer-wire.ts';

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
