import { createPostgresEngine } from '../../../src/engines/postgres/engine.ts';
import { createPool, type Database } from '../../../src/postgres/pool.ts';
import { inRounds, time } from '../../measure/rounds.ts';
import { quantile, summarize } from '../../measure/statistics.ts';
import { decimal, spread, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { defineSuite } from '../../runner/suite.ts';
import { createInProcessApi } from '../../setup/in-process-api.ts';
import { createDatabase } from '../../setup/postgres.ts';
import { measureCustomerWrites } from './customer-writes.ts';
import { type ListQuery, listQueries } from './list-queries.ts';
import { createListShop, type ListShop } from './list-shop.ts';

export const lists = defineSuite({
  name: 'lists',
  description: 'every list and search of Postgres, and their cost for writers of customers',
  isQuick: false,
  defaults: { customers: 200_000, seed: 42, rounds: 15, locale: undefined },
  async run({ options: { customers, seed, rounds, locale }, scope, server }) {
    const database = await createDatabase({ scope, server }, locale);
    const shop = await createListShop(scope, database, { customers, seed });
    const queries = await listQueries(database.pool, shop);
    const figures = await measure(scope, database.url, shop, queries, rounds);
    const writes = await measureCustomerWrites(database, shop.organizationId, rounds);
    const slowestInsideMs = Math.max(...figures.map(({ inside }) => inside.median));
    const slowestPostgresMs = Math.max(...figures.map(({ postgres }) => postgres.median));
    return {
      text: [
        tableOf(figures, {
          query: ({ query }) => query,
          'inside Postgres ms': ({ inside }) => spread(inside),
          'inside Postgres p95': ({ inside }) => decimal(inside.p95),
          'to Postgres and back ms': ({ postgres }) => spread(postgres),
          'to Postgres and back p95': ({ postgres }) => decimal(postgres.p95),
          'request ms': ({ request }) => spread(request),
          'request p95': ({ request }) => decimal(request.p95),
        }),
        `Slowest median inside Postgres: ${decimal(slowestInsideMs)} ms; to Postgres and back: ${decimal(slowestPostgresMs)} ms.`,
        'Inside Postgres is planning and execution, as EXPLAIN ANALYZE reports them.',
        tableOf(writes, {
          write: ({ write }) => write,
          ms: ({ milliseconds }) => spread(milliseconds, 2),
        }),
      ],
      figures: { milliseconds: figures, slowestInsideMs, slowestPostgresMs, writes },
    };
  },
});

/** Sends each query once in each round. */
async function measure(
  scope: Scope,
  databaseUrl: string,
  shop: ListShop,
  queries: readonly ListQuery[],
  rounds: number,
) {
  const database = createPool(databaseUrl, { max: 2, applicationName: 'bench lists' });
  scope.afterwards(() => database.end());
  const statements = recordStatements(database);
  const get = createInProcessApi(scope, database, createPostgresEngine(database));
  const tasks = queries.map(({ url }) => async () => {
    statements.length = 0;
    const request = await time(() => get(url, shop));
    const sent = [...statements];
    const postgres = sum(sent.map(({ ms }) => ms));
    return { request: request.wall, postgres, inside: await timeInside(database, sent) };
  });
  const measured = await inRounds(tasks, { rounds, signal: scope.signal });
  const withTail = (values: readonly number[]) => ({
    ...summarize(values),
    p95: quantile(values, 0.95),
  });
  return queries.map(({ name }, index) => {
    const times = measured[index] ?? [];
    return {
      query: name,
      inside: withTail(times.map(({ inside }) => inside)),
      postgres: withTail(times.map(({ postgres }) => postgres)),
      request: withTail(times.map(({ request }) => request)),
    };
  });
}

type SentStatement = { readonly text: string; readonly values: unknown[]; readonly ms: number };

/** Records the statements of the pool and their times, without those of key checks. */
function recordStatements(pool: Database): SentStatement[] {
  const statements: SentStatement[] = [];
  pool.on('connect', (connection) => {
    const query = connection.query.bind(connection) as (...given: unknown[]) => unknown;
    const recorded = (...given: unknown[]) => {
      const startedAt = performance.now();
      const result = query(...given);
      // Key checks use a callback.
      if (!(result instanceof Promise)) return result;
      return result.finally(() => {
        const { text, values } = given[0] as SentStatement;
        statements.push({ text, values, ms: performance.now() - startedAt });
      });
    };
    Object.assign(connection, { query: recorded });
  });
  return statements;
}

/** Milliseconds of planning and execution. EXPLAIN reads no clock for each row. */
async function timeInside(pool: Database, statements: readonly SentStatement[]): Promise<number> {
  const times: number[] = [];
  for (const { text, values } of statements) {
    const { rows } = await pool.query<{ 'QUERY PLAN': [Record<string, number>] }>({
      text: `explain (analyze, timing off, format json) ${text}`,
      values,
    });
    const [plan] = rows[0]?.['QUERY PLAN'] ?? [];
    times.push((plan?.['Planning Time'] ?? Number.NaN) + (plan?.['Execution Time'] ?? Number.NaN));
  }
  return sum(times);
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
