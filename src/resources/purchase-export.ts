import { z } from 'zod';
import type { PurchaseBatch } from '../domain/purchase-engine.ts';
import type { TableBatch } from '../http/formats/table.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { filtersFrom, purchaseExportParameters } from './purchase-parameters.ts';
import { purchaseBatchOnTheWire, purchaseTable } from './purchase-table.ts';

export function purchaseExport({ purchases: engine }: Services): readonly Route[] {
  return [
    route({
      url: '/purchases/export',
      summary: 'All purchases that match, as a file',
      isAddition: true,
      path: z.strictObject({}),
      query: purchaseExportParameters,
      response: z.never(),
      etag: false,
      isExport: true,
      name: 'purchases',
      table: purchaseTable,
      open: ({ query, organizationId }, take, signal) =>
        engine.export(
          organizationId,
          filtersFrom(query),
          ({ answer, asOf }, either) => take({ answer: onTheWire(answer), asOf }, either),
          signal,
        ),
    }),
  ];
}

async function* onTheWire(batches: AsyncIterable<PurchaseBatch>): AsyncGenerator<TableBatch> {
  for await (const batch of batches) yield purchaseBatchOnTheWire(batch);
}
