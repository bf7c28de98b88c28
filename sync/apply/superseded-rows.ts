import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { supersededColumns } from '../../src/purchase-store/layout.ts';
import type { StoreCatalogs } from '../../src/purchase-store/relations.ts';

/** More ids than this are not listed in the statement. */
const maxListedIds = 500;
/** Scans of the base in one statement. */
const maxScans = 16;
/** The rows of a DuckDB vector. Ids that are closer together share a scan. */
const minGap = 2_048n;

/**
 * Selects the base's rows (`supersededColumns`) of the staged purchases that the delta does not
 * supersede yet, or returns null if there are certainly none.
 *
 * A few ids are constants, and distant ones have a scan each: DuckDB then skips the row groups
 * between them. A subquery reads the whole base: a run with 60 changes, a tenth of them of any
 * age, took 405 ms of processor time instead of 148 at ten million rows, 168 instead of 114 at
 * two million.
 */
export async function stagedRowsOfBase(
  connection: DuckDBConnection,
  { base, delta }: StoreCatalogs,
): Promise<Sql | null> {
  const selected = raw(`select ${supersededColumns} from ${base}.purchase`);
  const missing = sql`
    select id from staged
    anti join (select id from ${raw(delta)}.change where sign < 0) as superseded using (id)`;
  const rows = await queryRows(connection, sql`${missing} order by id limit ${maxListedIds + 1}`);
  if (rows.length === 0) return null;
  if (rows.length > maxListedIds) return sql`${selected} where id in (${missing})`;
  const scans = splitAtGaps(rows.map(([id]) => id as bigint)).map(
    (ids) => sql`
      ${selected} where id between ${ids[0]} and ${ids.at(-1)} and id in (${join(ids)})`,
  );
  return join(scans, ' union all ');
}

/** Splits ascending ids at their widest gaps. */
export function splitAtGaps(ids: readonly bigint[]): bigint[][] {
  const gaps = ids
    .map((id, index) => ({ index, width: id - (ids[index - 1] ?? id) }))
    .filter(({ width }) => width > minGap)
    .sort((a, b) => Number(b.width - a.width))
    .slice(0, maxScans - 1);
  const starts = [0, ...gaps.map(({ index }) => index).sort((a, b) => a - b)];
  return starts.map((start, part) => ids.slice(start, starts[part + 1]));
}
