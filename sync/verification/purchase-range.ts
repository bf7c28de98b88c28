import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant, latestInstant } from '../../src/domain/instant.ts';
import type { DuckDBRow } from '../../src/duckdb/connection.ts';

/** Purchases by creation and by number; each bound is within the range. */
export type PurchaseRange = {
  readonly createdSince: bigint;
  readonly createdUntil: bigint;
  readonly idFrom: bigint;
  readonly idUntil: bigint;
};

/** At these ends a range has no bound: a damaged file may hold what Postgres refuses. */
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
 * When a file's purchase was created, in microseconds. What is beyond all that
 * Postgres holds, as only damage can be, counts as the last or the first instant.
 */
export const creationInFile: Sql = raw(`
  epoch_us(least(greatest(purchase.created_at, make_timestamp(${earliestInstant})),
    make_timestamp(${latestInstant})))`);

type Query = (statement: Sql) => Promise<DuckDBRow[]>;

/** What a range is cut along: by creation, or by number where all were created at once. */
type Axis = {
  readonly value: Sql;
  readonly first: bigint;
  readonly last: bigint;
  readonly from: 'createdSince' | 'idFrom';
  readonly until: 'createdUntil' | 'idUntil';
};

const bins = 1024n;

/**
 * Cuts the range into consecutive ones that hold at most `mostRows` of the file's
 * purchases each, and together all that the range holds. By creation as far as
 * possible: that is the order of the file, and of the index in Postgres.
 */
export async function splitRange(
  query: Query,
  catalog: string,
  range: PurchaseRange,
  mostRows: number,
): Promise<PurchaseRange[]> {
  const rows = sql`from ${raw(catalog)}.purchase where ${inFile(range)}`;
  const [extent] = await query(sql`
    select count(*), min(${creationInFile}), max(${creationInFile}), min(id), max(id) ${rows}`);
  const [count, firstCreated, lastCreated, firstId, lastId] = extent as [
    bigint,
    bigint,
    bigint,
    bigint,
    bigint,
  ];
  if (count <= mostRows) return [range];
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
  const parts = cut(range, axis, width, histogram, mostRows);
  if (parts.length === 1) return [range];
  const split: PurchaseRange[] = [];
  for (const part of parts) {
    // One bin alone may hold too many: where much was imported at once.
    if (part.count <= mostRows) split.push(part.range);
    else split.push(...(await splitRange(query, catalog, part.range, mostRows)));
  }
  return split;
}

function cut(
  range: PurchaseRange,
  axis: Axis,
  width: bigint,
  histogram: readonly (readonly [bin: bigint, count: bigint])[],
  mostRows: number,
): { range: PurchaseRange; count: bigint }[] {
  const parts: { range: PurchaseRange; count: bigint }[] = [];
  let rest = range;
  let restCount = 0n;
  for (const [bin, count] of histogram) {
    const start = axis.first + bin * width;
    const isWithin = start > rest[axis.from] && start <= rest[axis.until];
    if (isWithin && restCount > 0n && restCount + count > mostRows) {
      parts.push({ range: { ...rest, [axis.until]: start - 1n }, count: restCount });
      rest = { ...rest, [axis.from]: start };
      restCount = 0n;
    }
    restCount += count;
  }
  return [...parts, { range: rest, count: restCount }];
}
