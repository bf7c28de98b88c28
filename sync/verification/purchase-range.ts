import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../src/domain/instant.ts';
import type { PurchasePlace } from '../../src/domain/purchase-query.ts';

/** Consecutive purchases. `after` is exclusive, `until` inclusive; null: no bound. */
export type PurchaseRange = {
  readonly after: PurchasePlace | null;
  readonly until: PurchasePlace | null;
};

/**
 * The range as a condition on the table `purchases`. Postgres estimates the rows between two instants,
 * but takes a quarter of the table for the rows between two pairs of instant and id.
 */
export function inPostgres({ after, until }: PurchaseRange): Sql {
  const conditions = [sql`true`];
  if (after !== null) {
    const created = sql`${formatInstant(after.createdAt)}::timestamptz`;
    conditions.push(sql`purchases.created_at >= ${created}
      and (purchases.created_at, purchases.id) > (${created}, ${after.id}::bigint)`);
  }
  if (until !== null) {
    const created = sql`${formatInstant(until.createdAt)}::timestamptz`;
    conditions.push(sql`purchases.created_at <= ${created}
      and (purchases.created_at, purchases.id) <= (${created}, ${until.id}::bigint)`);
  }
  return join(conditions, ' and ');
}

/** The range as a condition on the columns `created_at` and `id` of a store. */
export function inStore({ after, until }: PurchaseRange, instant: (value: bigint) => Sql): Sql {
  const conditions = [sql`true`];
  if (after !== null) {
    const created = instant(after.createdAt);
    conditions.push(
      sql`created_at >= ${created} and (created_at > ${created} or id > ${after.id})`,
    );
  }
  if (until !== null) {
    const created = instant(until.createdAt);
    conditions.push(
      sql`created_at <= ${created} and (created_at < ${created} or id <= ${until.id})`,
    );
  }
  return join(conditions, ' and ');
}

export const inFile = (range: PurchaseRange): Sql =>
  inStore(range, (value) => sql`${new DuckDBTimestampValue(value)}`);
