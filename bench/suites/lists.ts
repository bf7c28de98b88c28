import { pino } from 'pino';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createApp } from '../../src/http/app.ts';
import { createPool, type Database } from '../../src/postgres/pool.ts';
import { measureCustomerWrites } from '../customer-writes.ts';
import { type ListQuestion, listQuestions } from '../list-questions.ts';
import { createListShop, type ListShop } from '../list-shop.ts';
import { quantile, summarize } from '../measurements.ts';
import { createDatabase } from '../postgres.ts';
import { decimal, figureTable, spread } from '../report.ts';
import type { Scope } from '../scope.ts';
import type { Suite } from '../suite.ts';

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
    const slowest = Math.max(...figures.map(({ postgres }) => postgres.median));
    return {
      options: { customers, seed, rounds, ...(locale === undefined ? {} : { locale }) },
      text: [
        figureTable(
          ['question', 'Postgres ms', 'p95', 'request ms', 'p95'],
          figures.map(({ question, postgres, request }) => [
            question,
            ...[postgres, request].flatMap((times) => [spread(times), decimal(times.p95)]),
          ]),
        ),
        `Slowest median of Postgres: ${decimal(slowest)} ms.`,
        figureTable(
          ['write', 'ms'],
          writes.map(({ write, milliseconds }) => [write, spread(milliseconds, 2)]),
        ),
      ].join('\n'),
      figures: { milliseconds: figures, slowestPostgresMs: slowest, writes },
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
  const spent = timeStatements(database);
  const app = createApp({
    services: { database, purchases: createPostgresEngine(database), publicAppUrl: 'https://app' },
    rateLimitPerMinute: Number.MAX_SAFE_INTEGER,
    failedKeysPerMinute: 1,
    log: pino({ level: 'silent' }),
  });
  scope.afterwards(() => app.close());
  const headers = { authorization: `Bearer ${secret}` };
  const times = questions.map(() => ({ postgres: [] as number[], request: [] as number[] }));
  // The round before the first fills caches.
  for (let round = -1; round < rounds; round += 1) {
    for (const [index, { url }] of questions.entries()) {
      scope.signal.throwIfAborted();
      spent.ms = 0;
      const startedAt = performance.now();
      const response = await app.inject({ method: 'GET', url, headers });
      const requestMs = performance.now() - startedAt;
      if (response.statusCode !== 200) throw new Error(`${url}: ${response.body}`);
      if (round < 0) continue;
      times[index]?.request.push(requestMs);
      times[index]?.postgres.push(spent.ms);
    }
  }
  const withTail = (measured: readonly number[]) => ({
    ...summarize(measured),
    p95: quantile(measured, 0.95),
  });
  return questions.map(({ name }, index) => ({
    question: name,
    postgres: withTail(times[index]?.postgres ?? []),
    request: withTail(times[index]?.request ?? []),
  }));
}

/** Adds up how long the pool's statements take, but for the look at the key. */
function timeStatements(pool: Database): { ms: number } {
  const spent = { ms: 0 };
  pool.on('connect', (connection) => {
    const query = connection.query.bind(connection) as (...given: unknown[]) => unknown;
    const timed = (...given: unknown[]) => {
      const startedAt = performance.now();
      const answer = query(...given);
      // The key is looked up by other means, with a callback.
      if (!(answer instanceof Promise)) return answer;
      return answer.finally(() => {
        spent.ms += performance.now() - startedAt;
      });
    };
    Object.assign(connection, { query: timed });
  });
  return spent;
}
