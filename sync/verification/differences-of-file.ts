import { queryRows } from '../../src/duckdb/connection.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';
import { type ComparisonOptions, createComparison } from './comparison.ts';
import type { PublishedFile } from './published-file.ts';
import { compareInParts, nothingFound } from './verify.ts';

/** In how many places a file that is to be published is not what Postgres holds. */
export async function countDifferences(
  { connection, catalog, path, watermark }: PurchaseFile,
  options: Omit<ComparisonOptions, 'files' | 'patienceMs'>,
): Promise<number> {
  if (watermark === null) throw new Error('a file without a watermark cannot be compared');
  const file: PublishedFile = {
    generation: {
      layoutVersion,
      file: path,
      ...watermark,
      purchases: 0,
      bytes: 0,
    },
    connection,
    catalog,
    query: (statement) => queryRows(connection, statement),
  };
  const files = { newest: async () => file };
  const found = { ...nothingFound };
  await compareInParts(createComparison({ ...options, files, patienceMs: 0 }), options, found);
  return found.differences.length + found.dictionaries.length;
}
