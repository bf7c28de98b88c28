import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import sql, { raw } from 'sql-template-tag';
import { type PurchaseRow, purchaseFromRow } from '../../domain/purchase.ts';
import type { AsOf, PurchaseAnswers, PurchaseEngine } from '../../domain/purchase-engine.ts';
import { microsecondsOf } from '../../postgres/instants.ts';
import { type Database, withSnapshot } from '../../postgres/pool.ts';
import { purchaseSelectList } from './columns.ts';
import { exportPurchases } from './export.ts';
import { listPurchases } from './list.ts';
import { purchaseStats } from './stats.ts';

const longestPauseMs = 1_000;

/**
 * Answers from the operational table itself. Slower than the DuckDB files, and
 * always current: what an organization is served from until its first
 * generation is published, and what the other engine is compared with.
 *
 * The pool stays the caller's. It bounds the questions at work and, by its
 * statement timeout, how long each may take.
 */
export function createPostgresEngine(database: Database): PurchaseEngine {
  const answerWithin = <Answer>(
    signal: AbortSignal | undefined,
    ask: (connection: pg.ClientBase) => Promise<Answer>,
  ): Promise<AsOf<Answer>> => {
    const answer = async (connection: pg.ClientBase) => {
      await lockTable(connection);
      return { answer: await ask(connection), asOf: await snapshotInstant(connection) };
    };
    return withSnapshot(database, answer, signal);
  };

  const answers: PurchaseAnswers = {
    list: (organizationId, query, signal) =>
      answerWithin(signal, (connection) => listPurchases(connection, organizationId, query)),

    get: (organizationId, purchaseId, signal) =>
      answerWithin(signal, async (connection) => {
        const statement = sql`
          select ${raw(purchaseSelectList)}
          from purchases
          where id = ${purchaseId} and organization_id = ${organizationId}`;
        const { rows } = await connection.query<bigint[]>({
          text: statement.text,
          values: statement.values,
          rowMode: 'array',
        });
        return rows[0] === undefined ? null : purchaseFromRow(rows[0] as PurchaseRow);
      }),

    stats: (organizationId, query, signal) =>
      answerWithin(signal, (connection) => purchaseStats(connection, organizationId, query)),

    export: (organizationId, filters, take, signal) => {
      const inSnapshot = async (connection: pg.ClientBase) => {
        await lockTable(connection);
        const asOf = await snapshotInstant(connection);
        const purchases = exportPurchases(connection, organizationId, filters, signal);
        return take({ answer: { purchases }, asOf }, signal ?? neverAborted);
      };
      return withSnapshot(database, inSnapshot, signal);
    },

    freshness: () => withSnapshot(database, snapshotInstant),
    version: async () => null,

    async reach(_organizationId, instant, signal) {
      for (;;) {
        const ahead = instant - (await withSnapshot(database, snapshotInstant, signal));
        if (ahead <= 0n) return;
        // Only what is in the future by the server's clock takes any time.
        const pauseMs = Math.min(longestPauseMs, Number(ahead / 1000n) + 1);
        await sleep(pauseMs, undefined, { signal }).catch(() => {});
        signal.throwIfAborted();
      }
    },
  };
  return {
    ...answers,
    // The pool's database is the one that the key was found in.
    forSource: () => answers,
    close: async () => {},
  };
}

const { signal: neverAborted } = new AbortController();

/**
 * Before the snapshot is taken: one older than a rewriting ALTER TABLE, or a TRUNCATE,
 * would see the table empty.
 */
async function lockTable(connection: pg.ClientBase): Promise<void> {
  await connection.query('lock table purchases in access share mode');
}

/** When the transaction began, which is before its snapshot: a promise that holds. */
async function snapshotInstant(connection: pg.ClientBase): Promise<bigint> {
  const { rows } = await connection.query<{ instant: bigint }>(
    `select ${microsecondsOf('transaction_timestamp()')} as instant`,
  );
  return rows[0]?.instant ?? 0n;
}
