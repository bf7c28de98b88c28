import { pino } from 'pino';
import { createPostgresEngine } from '../../../src/engines/postgres/engine.ts';
import { createApp } from '../../../src/http/app.ts';
import { createPool, type Database } from '../../../src/postgres/pool.ts';
import { resources } from '../../../src/resources/resources.ts';
import { readSettings } from '../../../src/settings.ts';
import { quantile, summarize } from '../../measure/statistics.ts';
import { decimal, spread } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import type { Suite } from '../../runner/suite.ts';
import { withoutExports } from '../../setup/in-process-api.ts';
import { createDatabase } from '../../setup/postgres.ts';
import { measureCustomerWrites } from './customer-writes.ts';
import { type ListQuestion, listQuestions } from './list-queries.ts';
import { createListShop, type ListShop } from './list-shop.ts';

/** The plot's: the table has all. */
const shownLists = 15;

export const lists: Suite = {
  name: 'lists',
  description: 'every list and search of Postgres, and what they cost writers of customers',
  isQuick: false,
  async run(bench) {
    const { customers = 200_000, seed = 42, rounds = 15, locale } = bench.options;
    const { scope } = bench;
    const database = await createDatabase(bench, locale);
    const shop = await createListShop(scope, database, { customers, seed });
    const questions = await listQuestions(database.pool, shop);
    const figures = await measure(scope, database.url, shop, questions, rounds);
    const writes = await measureCustomerWrites(database, shop.organizationId, rounds);
    const slowest = (times: 'inside' | 'postgres') =>
      Math.max(...figures.map((figure) => figure[times].median));
    const slowestInsideMs = slowest('inside');
    const slowestPostgresMs = slowest('postgres');
    return {
      options: { customers, seed, rounds, ...(locale === undefined ? {} : { locale }) },
      text: [
        {
          head: [
            'question',
            ...['inside Postgres ms', 'to Postgres and back ms', 'request ms'].flatMap((times) => [
              times,
              'p95',
            ]),
          ],
          rows: figures.map(({ question, inside, postgres, request }) => [
            question,
            ...[inside, postgres, request].flatMap((times) => [spread(times), decimal(times.p95)]),
          ]),
        },
        `Slowest median inside Postgres: ${decimal(slowestInsideMs)} ms; to Postgres and back: ${decimal(slowestPostgresMs)} ms.`,
        'Inside Postgres is planning and execution, as EXPLAIN ANALYZE tells them.',
        {
          head: ['write', 'ms'],
          rows: writes.map(({ write, milliseconds }) => [write, spread(milliseconds, 2)]),
        },
      ],
      plots: [
        {
          kind: 'bars',
          title: 'The slowest lists and searches',
          note: `Of ${figures.length}: planning and execution inside Postgres.`,
          unit: ' ms',
          scale: 'linear',
          baseline: 0,
          bars: figures
            .toSorted((a, b) => b.inside.median - a.inside.median)
            .slice(0, shownLists)
            .map(({ question, inside }) => ({ label: question, value: inside })),
        },
        {
          kind: 'bars',
          title: 'What updates of customers take',
          unit: ' ms',
          scale: 'log',
          baseline: null,
          bars: writes.map(({ write, milliseconds }) => ({ label: write, value: milliseconds })),
        },
      ],
      figures: { milliseconds: figures, slowestInsideMs, slowestPostgresMs, writes },
    };
  },
};

/** Each question once a round: whatever else the machine does hits all of them alike. */
async function measure(
  scope: Scope,
  databaseUrl: string,
  { secret }: ListShop,
  questions: readonly ListQuestion[],
  rounds: number,
) {
  const database = createPool(databaseUrl, { max: 2, applicationName: 'bench lists' });
  scope.afterwards(() => database.end());
  const statements = recordStatements(database);
  const app = createApp({
    ...readSettings({}),
    resources,
    keyDatabase: database,
    services: {
      database,
      purchases: createPostgresEngine(database),
      writeExport: withoutExports,
      publicAppUrl: 'https://app',
    },
    rateLimitPerMinute: Number.MAX_SAFE_INTEGER,
    failedKeysPerMinute: 1,
    log: pino({ level: 'silent' }),
  });
  scope.afterwards(() => app.close());
  const headers = { authorization: `Bearer ${secret}` };
  const times = questions.map(() => ({
    inside: [] as number[],
    postgres: [] as number[],
    request: [] as number[],
  }));
  // The round before the first fills caches.
  for (let round = -1; round < rounds; round += 1) {
    for (const [index, { url }] of questions.entries()) {
      scope.signal.throwIfAborted();
      statements.length = 0;
      const startedAt = performance.now();
      const response = await app.inject({ method: 'GET', url, headers });
      const requestMs = performance.now() - startedAt;
      if (response.statusCode !== 200) throw new Error(`${url}: ${response.body}`);
      const sent = [...statements];
      const inside = await timeInside(database, sent);
      if (round < 0) continue;
      times[index]?.request.push(requestMs);
      times[index]?.postgres.push(total(sent.map(({ ms }) => ms)));
      times[index]?.inside.push(inside);
    }
  }
  const withTail = (measured: readonly number[]) => ({
    ...summarize(measured),
    p95: quantile(measured, 0.95),
  });
  return questions.map(({ name }, index) => ({
    question: name,
    inside: withTail(times[index]?.inside ?? []),
    postgres: withTail(times[index]?.postgres ?? []),
    request: withTail(times[index]?.request ?? []),
  }));
}

type SentStatement = { readonly text: string; readonly values: unknown[]; readonly ms: number };

/** What the pool's statements were and how long they took, but for the look at the key. */
function recordStatements(pool: Database): SentStatement[] {
  const statements: SentStatement[] = [];
  pool.on('connect', (connection) => {
    const query = connection.query.bind(connection) as (...given: unknown[]) => unknown;
    const recorded = (...given: unknown[]) => {
      const startedAt = performance.now();
      const answer = query(...given);
      // The key is looked up by other means, with a callback.
      if (!(answer instanceof Promise)) return answer;
      return answer.finally(() => {
        const { text, values } = given[0] as SentStatement;
        statements.push({ text, values, ms: performance.now() - startedAt });
      });
    };
    Object.assign(connection, { query: recorded });
  });
  return statements;
}

/** Milliseconds that Postgres plans and executes; the clock is not read for each row. */
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
  return total(times);
}

const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
