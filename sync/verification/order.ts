import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { streamChunks } from '../../src/duckdb/connection.ts';
import {
  createPreviousPurchases,
  type Keys,
  keyColumns,
} from '../../src/purchase-store/last-purchases.ts';
import { previousQuarterNames } from '../../src/purchase-store/previous-purchases.ts';

type Columns = readonly [...keys: Keys, ofAny: readonly number[], ofStatus: readonly number[]];

/**
 * The number of a base's purchases that are not in the order of creation, or name another previous
 * purchase than the base has. Time series count customers by them.
 */
export async function countMisplaced(connection: DuckDBConnection, base: string): Promise<number> {
  const rows = sql`
    select ${await keyColumns(connection, base)}, ${raw(previousQuarterNames)}
    from ${raw(base)}.purchase`;
  const purchases = createPreviousPurchases();
  let misplaced = 0;
  let latest = Number.NEGATIVE_INFINITY;
  for await (const chunk of streamChunks(connection, rows)) {
    const [customers, statuses, quarters, ofAny, ofStatus] =
      chunk.getColumns() as unknown as Columns;
    const expected = purchases.add([customers, statuses, quarters]);
    for (const [row, quarter] of quarters.entries()) {
      const isInPlace =
        quarter >= latest &&
        ofAny[row] === expected.ofAny[row] &&
        ofStatus[row] === expected.ofStatus[row];
      if (!isInPlace) misplaced += 1;
      latest = quarter;
    }
  }
  return misplaced;
}
