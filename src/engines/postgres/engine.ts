import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import type {
  PurchaseEngine,
  PurchaseReader,
  QueuedRead,
  Versioned,
} from '../../domain/purchase-engine.ts';
import { claimedInstant, claimedInstantOf } from '../../postgres/connection/claimed-instant.ts';
import {
  type Connection,
  type Database,
  firstRow,
  inSnapshot,
  withConnection,
} from '../../postgres/connection/pool.ts';
import {
  createPostgresQueryPool,
  type PostgresQueryPool,
} from '../../postgres/connection/query-pool.ts';
import { untilRead, withReadDeadline } from '../../postgres/connection/read-ahead.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import type { QueryQueueOptions } from '../../queue/query-queue.ts';
import { readPurchaseCohorts } from '../report/cohorts.ts';
import { readPurchaseReport } from '../report/report.ts';
import { exportPurchases, findPurchase, listPurchases } from './list.ts';
import { postgresSource } from './source.ts';

const maxPauseMs = 1_000;

export type PostgresEngine = PurchaseEngine & {
  readonly queries: Pick<PostgresQueryPool, 'state'>;
};

/**
 * Reads the operational table. This engine is slower than DuckDB files, and always current. It
 * serves an organization until its first generation is published, and is the reference in tests.
 *
 * The caller owns the pool. The queue bounds queries, so that one client cannot occupy all
 * connections. Exports do not enter the queue: their number is bounded elsewhere.
 */
export function createPostgresEngine(
  database: Database,
  options?: QueryQueueOptions,
): PostgresEngine {
  const queries = createPostgresQueryPool(database, options);
  const queued =
    <Query, Result>(
      read: (
        connection: Connection,
        organizationId: bigint,
        query: Query,
        asOf: bigint,
      ) => Promise<Result>,
    ): QueuedRead<Query, Result> =>
    (organizationId, query, signal, client) => {
      const work: SnapshotWork<Versioned<Result>> = async (connection, readInstant) => {
        await lockTable(connection);
        const asOf = await readInstant();
        const result = await read(connection, organizationId, query, asOf);
        return { result, asOf, version: null };
      };
      return queries.run({ organizationId, name: client }, signal, (connection) =>
        withInstant(connection, organizationId, work),
      );
    };

  const reader: PurchaseReader = {
    list: queued(listPurchases),
    get: queued(findPurchase),
    report: queued((connection, id, query, asOf) =>
      readPurchaseReport(postgresSource(connection, id), query, asOf),
    ),
    cohorts: queued((connection, id, query, asOf) =>
      readPurchaseCohorts(postgresSource(connection, id), query, asOf),
    ),
    async export(organizationId, filters, take, signal) {
      const { taken } = await withReadDeadline(signal, (either) =>
        withConnection(
          database,
          (connection) =>
            withInstant(connection, organizationId, async (_same, readInstant) => {
              await lockTable(connection);
              const asOf = await readInstant();
              const all = exportPurchases(connection, organizationId, filters, either);
              return untilRead(all, (purchases) => take({ result: { purchases }, asOf }, either));
            }),
          either,
        ),
      );
      return taken;
    },

    freshness: () => newestInstant(database, null),
    version: async () => null,

    async waitUntilFresh(organizationId, instant, signal) {
      for (;;) {
        const ahead = instant - (await newestInstant(database, organizationId, signal));
        if (ahead <= 0n) return;
        // Only a standby, or an instant in the future of the server's clock, takes any time.
        const pauseMs = Math.min(maxPauseMs, Number(ahead / 1000n) + 1);
        await sleep(pauseMs, undefined, { signal }).catch(() => {});
        signal.throwIfAborted();
      }
    },
  };
  return {
    ...reader,
    // Keys and purchases are in the same database.
    forSource: () => reader,
    queries,
    close: queries.close,
  };
}

/** Precedes the snapshot: a snapshot older than a TRUNCATE or a rewriting ALTER TABLE sees no rows. */
async function lockTable(connection: Connection): Promise<void> {
  await connection.query('lock table purchases in access share mode');
}

type SnapshotWork<Result> = (
  connection: Connection,
  /** Reads the instant whose changes the snapshot shows. */
  readInstant: () => Promise<bigint>,
) => Promise<Result>;

/**
 * Runs `work` in a snapshot of a connection. A primary shows all changes from before the transaction. A standby
 * shows those that it had replayed before, whatever its clock says.
 */
async function withInstant<Result>(
  connection: Connection,
  /** Null for the instant of all organizations that no mapping delays. */
  organizationId: bigint | null,
  work: SnapshotWork<Result>,
): Promise<Result> {
  const claimed =
    organizationId === null
      ? sql`select ${raw(claimedInstant)} as instant`
      : claimedInstantOf(organizationId);
  const replayed = await firstRow<{ instant: bigint | null }>(connection, replayedInstant);
  const readInstant = async () => {
    const row = await firstRow<{ instant: bigint }>(
      connection,
      sql`select least(${replayed?.instant}::bigint, instant) as instant from (${claimed}) as claimed`,
    );
    return row?.instant ?? 0n;
  };
  return inSnapshot(connection, () => work(connection, readInstant));
}

const newestInstant = (
  database: Database,
  organizationId: bigint | null,
  signal?: AbortSignal,
): Promise<bigint> =>
  withConnection(
    database,
    (connection) => withInstant(connection, organizationId, (_same, readInstant) => readInstant()),
    signal,
  );

/**
 * Null on a primary. A standby that has replayed nothing shows the last checkpoint, which only then
 * is read from its file.
 */
const replayedInstant = sql`
  select ${raw(microsecondsOf('replayed_at'))} as instant
  from (
    select case when pg_is_in_recovery() then coalesce(
      pg_last_xact_replay_timestamp(),
      (select checkpoint_time from pg_control_checkpoint())
    ) end as replayed_at
  ) as recovery`;
