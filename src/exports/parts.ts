import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { purchaseLabels } from '../domain/purchase.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import { queryRows } from '../duckdb/connection.ts';
import { isOutOfMemory } from '../duckdb/memory.ts';
import { purchasesMatching } from '../engines/duckdb/filters.ts';
import { labelTable } from '../purchase-store/layout.ts';
import { createRowRanges } from './row-ranges.ts';

/** Purchases of an attached file that are exported by one statement. */
export type Part = {
  readonly condition: Sql;
  /** Whether others follow: then only the values that this part uses are worth preparing. */
  readonly isPart: boolean;
};

/**
 * The values of labels and coupons that one statement may prepare. It holds them twice, as
 * they are shown: in a table and in a join. Above this the rows are exported range by range.
 */
const maxPreparedBytes = 16 * 2 ** 20;

/**
 * Calls `prepare` and then `write` for all purchases that match: once where their labels
 * and coupons fit into memory, otherwise for ranges of rows. \`prepare\` may be called
 * again for smaller ranges, where memory is short.
 */
export async function forEachPart<Prepared>(
  connection: DuckDBConnection,
  catalog: string,
  filters: PurchaseFilters,
  prepare: (part: Part) => Promise<Prepared>,
  write: (prepared: Prepared, part: Part) => Promise<void>,
): Promise<void> {
  const matching = (await purchasesMatching(connection, catalog, filters)) ?? sql`false`;
  if ((await valueBytes(connection, catalog, matching)) <= maxPreparedBytes) {
    const part = { condition: matching, isPart: false };
    await write(await prepare(part), part);
    return;
  }
  const [row] = await queryRows(
    connection,
    sql`select coalesce(max(rowid), -1) from ${raw(catalog)}.purchase`,
  );
  const [greatest] = row as [bigint];
  if (greatest < 0n) {
    // A file is written even where it holds no rows.
    const part = { condition: matching, isPart: true };
    await write(await prepare(part), part);
    return;
  }
  const ranges = createRowRanges(greatest + 1n);
  for (let range = ranges.next(); range !== null; range = ranges.next()) {
    const condition = sql`${matching}
      and purchase.rowid >= ${range.begin} and purchase.rowid < ${range.end}`;
    const part = { condition, isPart: true };
    let prepared: Prepared;
    try {
      const bytes = await valueBytes(connection, catalog, condition, true);
      if (bytes > maxPreparedBytes && ranges.halve(range)) continue;
      ranges.noteRead(0);
      prepared = await prepare(part);
    } catch (error) {
      if (isOutOfMemory(error) && ranges.halve(range)) continue;
      throw error;
    }
    await write(prepared, part);
  }
}

/** The bytes of the values that purchases refer to; without \`used\`, of whole dictionaries. */
async function valueBytes(
  connection: DuckDBConnection,
  catalog: string,
  matching: Sql,
  used = false,
): Promise<bigint> {
  const purchases = raw(`${catalog}.purchase`);
  const sizes = purchaseLabels.map((label) => {
    const keys = sql`where key in (select ${raw(`${label}_key`)} from ${purchases} where ${matching})`;
    return sql`select sum(strlen(value)) as bytes from ${raw(`${catalog}.${labelTable(label)}`)}
      ${used ? keys : sql``}`;
  });
  const [row] = await queryRows(
    connection,
    sql`select coalesce(sum(bytes), 0)::bigint from (
      ${join(sizes, ' union all ')}
      union all
      select approx_count_distinct(coupons) * avg(strlen(coupons)) from ${purchases} where ${matching})`,
  );
  return row?.[0] as bigint;
}
