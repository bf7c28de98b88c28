import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { AsOf, PurchaseEngine, PurchaseReader } from '../../domain/purchase-engine.ts';
import { microsecondsOf } from '../../postgres/instants.ts';
import { type Database, withSnapshot } from '../../postgres/pool.ts';
import { createQueryQueue, type QueryQueue, type QueryQueueOptions } from '../query-queue.ts';
import { exportPurchases, findPurchase, listPurchases } from './list.ts';
import { purchaseStats } from './stats.ts';
import { purchaseTimeSeries } from './time-series.ts';

const maxPauseMs = 1_000;

/** The engine, and its state for metrics. */
export type PostgresEngine = PurchaseEngine & {
  readonly queries: Pick<QueryQueue, 'state'>;
};

/** The caller's pool alone bounds queries. */
const unbounded: QueryQueueOptions = {
  concurrency: Number.POSITIVE_INFINITY,
  queueLimit: 0,
  queueLimitPerClient: 0,
  // The maximum of a timer.
  timeoutMs: 2 ** 31 - 1,
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
  options: QueryQueueOptions = unbounded,
): PostgresEngine {
  const queries = createQueryQueue(options);
  const run = <Result>(
    organizationId: bigint,
    signal: AbortSignal | undefined,
    client: string | undefined,
    query: (connection: pg.ClientBase) => Promise<Result>,
  ): Promise<AsOf<Result>> => {
    const inSnapshot = async (connection: pg.ClientBase) => {
      await lockTable(connection);
      return { result: await query(connection), asOf: await snapshotInstant(connection) };
    };
    return queries.run(client ?? `organization ${organizationId}`, signal, (either) =>
      withSnapshot(database, inSnapshot, either),
    );
  };

  const reader: PurchaseReader = {
    list: (organizationId, query, signal, client) =>
      run(organizationId, signal, client, (connection) =>
        listPurchases(connection, organizationId, query),
      ),

    get: (organizationId, purchaseId, signal, client) =>
      run(organizationId, signal, client, (connection) =>
        findPurchase(connection, organizationId, purchaseId),
      ),

    stats: (organizationId, query, signal, client) =>
      run(organizationId, signal, client, (connection) =>
        purchaseStats(connection, organizationId, query),
      ),

    timeSeries: (organizationId, query, signal, client) =>
      run(organizationId, signal, client, (connection) =>
        purchaseTimeSeries(connection, organizationId, query),
      ),

    export: (organizationId, filters, take, signal) => {
      const inSnapshot = async (connection: pg.ClientBase) => {
        await lockTable(connection);
        const asOf = await snapshotInstant(connection);
        const purchases = exportPurchases(connection, organizationId, filters, signal);
        return take({ result: { purchases }, asOf }, signal ?? neverAborted);
      };
      return withSnapshot(database, inSnapshot, signal);
    },

    freshness: () => withSnapshot(database, snapshotInstant),
    version: async () => null,

    async waitUntilFresh(_organizationId, instant, signal) {
      for (;;) {
        const ahead = instant - (await withSnapshot(database, snapshotInstant, signal));
        if (ahead <= 0n) return;
        // Only an instant in the future of the server's clock takes any time.
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

const { signal: neverAborted } = new AbortController();

/** Precedes the snapshot: a snapshot older than a TRUNCATE or a rewriting ALTER TABLE sees no rows. */
async function lockTable(connection: pg.ClientBase): Promise<void> {
  await connection.query('lock table purchases in access share mode');
}

/** The beginning of the transaction. The snapshot is later, so it shows this instant. */
async function snapshotInstant(connection: pg.ClientBase): Promise<bigint> {
  const { rows } = await connection.query<{ instant: bigint }>(
    `select ${microsecondsOf('transaction_timestamp()')} as instant`,
  );
  return rows[0]?.instant ?? 0n;
}
