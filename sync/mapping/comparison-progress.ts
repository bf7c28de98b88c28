import type { Database } from '../../src/postgres/connection/pool.ts';

const intervalMs = 1_000;

export type ComparisonProgress = ReturnType<typeof createComparisonProgress>;

/** Writes for `status`, once a second, how far a comparison of all rows is, and why it runs; null without a cause. */
export function createComparisonProgress(since: Date, reason: string | null) {
  let rows = 0;
  let writtenAt = Number.NEGATIVE_INFINITY;
  return {
    /** Counts rows that are compared. */
    async add(connection: Pick<Database, 'query'>, compared: number): Promise<void> {
      rows += compared;
      if (performance.now() - writtenAt < intervalMs) return;
      await connection.query(
        `update mapping_state set comparison = jsonb_build_object(
           'since', $1::timestamptz, 'reason', $2::text, 'rows', $3::bigint, 'expectedRows', (
             -- An estimate, because counting the rows of a large shop takes a second.
             select nullif(sum(greatest(reltuples, 0)), 0)::bigint from pg_class
             where oid in ('mapped_customer_numbers'::regclass, 'mapped_purchase_numbers'::regclass)))`,
        [since, reason, rows],
      );
      writtenAt = performance.now();
    },
  };
}
