import { z } from 'zod';
import type { ResourceServices } from '../../http/resource-services.ts';
import { type Route, route } from '../../http/route.ts';
import { readFilters } from './purchase-filters.ts';
import { purchaseExportParameters } from './purchase-parameters.ts';

export function purchaseExport({ writeExport }: ResourceServices): readonly Route[] {
  return [
    route({
      url: '/purchases/export',
      summary: 'All purchases that match, as a file',
      description:
        'Without `status`, the file has purchases of every payment status. Rows are in no ' +
        'particular order, and as of the instant in `X-Data-As-Of`. A connection that breaks ' +
        'off means an incomplete file.',
      isAddition: true,
      path: z.strictObject({}),
      query: purchaseExportParameters,
      response: z.never(),
      kind: 'export',
      name: 'purchases',
      open: async (request, output, take, signal) => {
        const filters = await readFilters(request);
        await request.purchases.export(
          request.organizationId,
          filters,
          ({ result: source, asOf }, signal) =>
            take({ result: writeExport(source, filters, output, signal), asOf }, signal),
          signal,
        );
      },
    }),
  ];
}
