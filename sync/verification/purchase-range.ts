import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant, latestInstant } from '../../src/domain/instant.ts';

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
  return conditionOf(range, raw('purchases.'), instant);
}

/** The range with instants as ISO 8601 texts. */
export const asTexts = ({ createdSince, createdUntil, idFrom, idUntil }: PurchaseRange) => ({
  createdSince: formatInstant(createdSince),
  createdUntil: formatInstant(createdUntil),
  idFrom,
  idUntil,
});

/** The range as a condition on a file's table `purchase`. */
export function inFile(range: PurchaseRange): Sql {
  return conditionOf(range, raw('purchase.'), (value) => sql`${new DuckDBTimestampValue(value)}`);
}

/** `prefix` precedes the names of the columns. */
export function conditionOf(
  range: PurchaseRange,
  prefix: Sql,
  instant: (value: bigint) => Sql,
): Sql {
  const { createdSince, createdUntil, idFrom, idUntil } = range;
  const all = allPurchases;
  const conditions: Sql[] = [];
  if (createdSince > all.createdSince)
    conditions.push(sql`${prefix}created_at >= ${instant(createdSince)}`);
  if (createdUntil < all.createdUntil)
    conditions.push(sql`${prefix}created_at <= ${instant(createdUntil)}`);
  if (idFrom > all.idFrom) conditions.push(sql`${prefix}id >= ${idFrom}`);
  if (idUntil < all.idUntil) conditions.push(sql`${prefix}id <= ${idUntil}`);
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ');
}

/**
 * The creation of a file's purchase, in microseconds. A damaged value beyond the instants of
 * Postgres counts as the first or last instant.
 */
export const creationInFile: Sql = raw(`
  epoch_us(least(greatest(purchase.created_at, make_timestamp(${earliestInstant})),
    make_timestamp(${latestInstant})))`);
