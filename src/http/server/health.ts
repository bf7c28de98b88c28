import type { FastifyInstance } from 'fastify';
import pg from 'pg';
import sql, { raw } from 'sql-template-tag';
import { z } from 'zod';
import {
  describeDatabaseFailure,
  type TableRights,
} from '../../postgres/connection/database-failure.ts';
import { type Database, firstRow } from '../../postgres/connection/pool.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { findTableProblem } from '../../postgres/schema/schema.ts';
import { waitForPostgres } from './postgres-silence.ts';

/** Health checks for operators: outside /v1, without a key, and part of the OpenAPI document. */
export const probes = {
  '/healthz': {
    summary: 'Whether this process responds',
    responses: { 200: z.object({ status: z.literal('ok') }) },
  },
  '/readyz': {
    summary: 'Whether the databases respond, the tables are usable and the sync worker publishes',
    responses: {
      200: z.object({ status: z.literal('ok') }),
      503: z.object({ status: z.literal('unavailable'), problem: z.string() }),
    },
  },
} as const;

type HealthOptions = {
  readonly keyDatabase: Database;
  readonly rights: TableRights;
  readonly databaseSilenceMs: number;
  /** The maximum age of that tick; 0: any. */
  readonly readyMaxLagMs: number;
  /** The earliest tick of a worker whose organizations are served; null if no files are read. */
  readonly oldestTickAsOf: () => bigint | null;
  /** Why the store of purchases cannot be used; null if it can. Never rejects. */
  readonly findStoreProblem: () => Promise<string | null>;
};

export async function health(app: FastifyInstance, options: HealthOptions): Promise<void> {
  const method = ['GET', 'HEAD'];
  app.route({ method, url: '/healthz', handler: async () => ({ status: 'ok' }) });
  const findShared = shared(
    async () => (await findProblem(options)) ?? (await options.findStoreProblem()),
  );
  app.route({
    method,
    url: '/readyz',
    handler: async (_request, reply) => {
      const problem = await findShared();
      return problem === null
        ? { status: 'ok' }
        : reply.code(503).send({ status: 'unavailable', problem });
    },
  });
}

/** Concurrent callers share one check: many must not occupy the connections that check keys. */
function shared<Result>(check: () => Promise<Result>): () => Promise<Result> {
  let running: Promise<Result> | null = null;
  return () => {
    running ??= check().finally(() => {
      running = null;
    });
    return running;
  };
}

/**
 * Uses the connections of key checks, because slow lists may occupy all others. Compares with the
 * clock of Postgres, by which the instants of the data are stated.
 */
async function findProblem(options: HealthOptions): Promise<string | null> {
  const { keyDatabase, rights, databaseSilenceMs, readyMaxLagMs } = options;
  const wait = <Result>(work: Promise<Result>) =>
    waitForPostgres(keyDatabase, work, databaseSilenceMs);
  try {
    const found = await wait(findTableProblem(keyDatabase, rights));
    if (found !== null) return found.message;
    const asOf = options.oldestTickAsOf();
    if (readyMaxLagMs === 0 || asOf === null) return null;
    const now = sql`select ${raw(microsecondsOf('now()'))} as now`;
    const row = await wait(firstRow<{ now: bigint }>(keyDatabase, now));
    const lagMs = Number((row?.now ?? asOf) - asOf) / 1000;
    if (lagMs <= readyMaxLagMs) return null;
    return (
      `The sync worker has published nothing for ${Math.round(lagMs / 1000)} s. ` +
      `READY_MAX_LAG_SECONDS allows ${readyMaxLagMs / 1000} s`
    );
  } catch (error) {
    return describeFailure(error);
  }
}

/** Without the message of Postgres, which may name roles and addresses: probes need no key. */
function describeFailure(error: unknown): string {
  const advice = describeDatabaseFailure(error)?.advice;
  return error instanceof pg.DatabaseError && advice !== undefined
    ? `Postgres refused the connection (SQLSTATE ${error.code}). ${advice}`
    : 'Postgres does not respond';
}
