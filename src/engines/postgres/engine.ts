import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { AsOf, PurchaseEngine, PurchaseReader } from '../../domain/purchase-engine.ts';
import { microsecondsOf } from '../../postgres/instants.ts';
import { type Database, withSnapshot } from '../../postgres/pool.ts';
import { exportPurchases, findPurchase, listPurchases } from './list.ts';
import { purchaseStats } from './stats.ts';
import { purchaseTimeSeries } from './time-series.ts';

const maxPauseMs = 1_000;

/**
 * Reads the operational table. This engine is slower than DuckDB files, and always current. It
 * serves an organization until its first generation is published, and is the reference in tests.
 *
 * The caller owns the pool, which bounds concurrent queries and, by its statement timeout, the
 * time of each.
 */
export function createPostgresEngine(database: Database): PurchaseEngine {
  const run = <Result>(
    signal: AbortSignal | undefined,
    query: (connection: pg.ClientBase) => Promise<Result>,
  ): Promise<AsOf<Result>> => {
    const inSnapshot = async (connection: pg.ClientBase) => {
      await lockTable(connection);
      return { result: await query(connection), asOf: await snapshotInstant(connection) };
    };
    return withSnapshot(database, inSnapshot, signal);
  };

  const reader: PurchaseReader = {
    list: (organizationId, query, signal) =>
      run(signal, (connection) => listPurchases(connection, organizationId, query)),

    get: (organizationId, purchaseId, signal) =>
      run(signal, (connection) => findPurchase(connection, organizationId, purchaseId)),

    stats: (organizationId, query, signal) =>
      run(signal, (connection) => purchaseStats(connection, organizationId, query)),

    timeSeries: (organizationId, query, signal) =>
      run(signal, (connection) => purchaseTimeSeries(connection, organizationId, query)),

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
    close: async () => {},
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
