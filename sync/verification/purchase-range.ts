import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant, latestInstant } from '../../src/domain/instant.ts';
import type { DuckDBRow } from '../../src/duckdb/connection.ts';
import { currentPurchases, type StoreCatalogs } from '../../src/purchase-store/relations.ts';

/** A range of purchases by creation and id. Both bounds are inclusive. */
export type PurchaseRange = {
  readonly createdSince: bigint;
  readonly createdUntil: bigint;
  readonly idFrom: bigint;
  readonly idUntil: bigint;
};

/** A range has no bound at these ends: a damaged file may hold values that Postgres refuses. */
export const allPurchases: PurchaseRange = {
  createdSince: earliestInstant,
  createdUntil: latestInstant,
  idFrom: 1n,
  idUntil: 2n ** 63n - 1n,
};

/** The range as a condition on the table `purchases`. */
export function inPostgres(range: PurchaseRange): Sql {
  const instant = (value: bigint) => sql`${formatInstant(value)}::timestamptz`;
  return conditionOf(range, raw('purchases'), instant);
}

/** The range as a condition on a file's table `purchase`. */
export function inFile(range: PurchaseRange): Sql {
  return conditionOf(range, raw('purchase'), (value) => sql`${new DuckDBTimestampValue(value)}`);
}

function conditionOf(range: PurchaseRange, table: Sql, instant: (value: bigint) => Sql): Sql {
  const { createdSince, createdUntil, idFrom, idUntil } = range;
  const all = allPurchases;
  const conditions: Sql[] = [];
  if (createdSince > all.createdSince)
    conditions.push(sql`${table}.created_at >= ${instant(createdSince)}`);
  if (createdUntil < all.createdUntil)
    conditions.push(sql`${table}.created_at <= ${instant(createdUntil)}`);
  if (idFrom > all.idFrom) conditions.push(sql`${table}.id >= ${idFrom}`);
  if (idUntil < all.idUntil) conditions.push(sql`${table}.id <= ${idUntil}`);
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ');
}

/**
 * The creation of a file's purchase, in microseconds. A damaged value beyond the instants of
 * Postgres counts as the first or last instant.
 */
export const creationInFile: Sql = raw(`
  epoch_us(least(greatest(purchase.created_at, make_timestamp(${earliestInstant})),
    make_timestamp(${latestInstant})))`);

type Query = (statement: Sql) => Promise<DuckDBRow[]>;

/** The column that splits a range: creation, or id if all purchases have one creation. */
type Axis = {
  readonly value: Sql;
  readonly first: bigint;
  readonly last: bigint;
  readonly from: 'createdSince' | 'idFrom';
  readonly until: 'createdUntil' | 'idUntil';
};

const bins = 1024n;

/**
 * Splits a range into consecutive ones of at most `maxRows` purchases of the file. Ranges of
 * creation come first, because file and index in Postgres are in that order.
 */
export async function splitRange(
  query: Query,
  catalogs: StoreCatalogs,
  range: PurchaseRange,
  maxRows: number,
): Promise<PurchaseRange[]> {
  const rows = sql`from ${currentPurchases(catalogs, inFile(range))} as purchase`;
  const [bounds] = await query(sql`
    select count(*), min(${creationInFile}), max(${creationInFile}), min(id), max(id) ${rows}`);
  const [count, firstCreated, lastCreated, firstId, lastId] = bounds as [
    bigint,
    bigint,
    bigint,
    bigint,
    bigint,
  ];
  if (count <= maxRows) return [range];
  const axis: Axis =
    firstCreated < lastCreated
      ? {
          value: creationInFile,
          first: firstCreated,
          last: lastCreated,
          from: 'createdSince',
          until: 'createdUntil',
        }
      : { value: raw('id'), first: firstId, last: lastId, from: 'idFrom', until: 'idUntil' };
  const width = (axis.last - axis.first) / bins + 1n;
  const histogram = (await query(sql`
    select (${axis.value} - ${axis.first}) // ${width} as bin, count(*)
    ${rows} group by bin order by bin`)) as [bigint, bigint][];
  const parts = cut(range, axis, width, histogram, maxRows);
  if (parts.length === 1) return [range];
  const split: PurchaseRange[] = [];
  for (const part of parts) {
    // One bin may hold too many purchases after an import.
    if (part.count <= maxRows) split.push(part.range);
    else split.push(...(await splitRange(query, catalogs, part.range, maxRows)));
  }
  return split;
}

function cut(
  range: PurchaseRange,
  axis: Axis,
  width: bigint,
  histogram: readonly (readonly [bin: bigint, count: bigint])[],
  maxRows: number,
): { range: PurchaseRange; count: bigint }[] {
  const parts: { range: PurchaseRange; count: bigint }[] = [];
  let rest = range;
  let restCount = 0n;
  for (const [bin, count] of histogram) {
    const start = axis.first + bin * width;
    const isWithin = start > rest[axis.from] && start <= rest[axis.until];
    if (isWithin && restCount > 0n && restCount + count > maxRows) {
      parts.push({ range: { ...rest, [axis.until]: start - 1n }, count: restCount });
      rest = { ...rest, [axis.from]: start };
      restCount = 0n;
    }
    restCount += count;
  }
  return [...parts, { range: rest, count: restCount }];
}
