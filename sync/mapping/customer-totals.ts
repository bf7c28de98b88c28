import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Connection, Database } from '../../src/postgres/connection/pool.ts';
import { inMappingTransaction } from '../../src/postgres/mapping/mapping-transaction.ts';

/** Computing totals reads all purchases of an organization: at most a twentieth of the time. */
const minIntervalMs = 60_000;
const pausesPerRun = 20;

/** Keeps the totals of customers and the counts of segments of mapped organizations. */
export function createTotals(database: Database, log: Logger) {
  const dueAt = new Map<bigint, number>();
  let isStarted = false;

  const setDue = (
    id: bigint | null,
    isDue: boolean,
    connection: Connection | Database = database,
  ) =>
    connection.query(
      `update mapped_organizations set are_totals_due = $1
       where organization_id = coalesce($2, organization_id) and are_totals_due <> $1`,
      [isDue, id],
    );

  /**
   * The row is written in a transaction of its own before the work, which would otherwise keep the mapping
   * waiting. It waits for one that maps: that has seen the totals as due, and does not mark them again.
   */
  const refresh = async (id: bigint): Promise<void> => {
    await inMappingTransaction(database, (connection) => setDue(id, false, connection));
    try {
      await database.query('select refresh_customer_totals($1), refresh_segment_counts($1)', [id]);
    } catch (error) {
      await setDue(id, true).catch(() => {});
      throw error;
    }
  };

  return {
    async refreshDue(): Promise<void> {
      // A worker that was killed may not have completed its last one.
      if (!isStarted) await setDue(null, true);
      isStarted = true;
      const { rows } = await database.query<{ id: bigint }>(
        'select organization_id as id from mapped_organizations where are_totals_due',
      );
      for (const { id } of rows) {
        const startedAt = performance.now();
        if (startedAt < (dueAt.get(id) ?? 0)) continue;
        await refresh(id);
        const durationMs = performance.now() - startedAt;
        dueAt.set(id, startedAt + Math.max(minIntervalMs, pausesPerRun * durationMs));
        log.debug({ organization: encodeId('organization', id), durationMs }, 'refreshed totals');
      }
    },
  };
}
