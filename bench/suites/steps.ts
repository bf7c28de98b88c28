import sql, { raw } from 'sql-template-tag';
import type { StatsDimension } from '../../src/domain/purchase-query.ts';
import { createInstance, queryRows } from '../../src/duckdb/connection.ts';
import { childEnvironment, readSettings } from '../../src/settings/settings.ts';
import { inRounds, timed, wall } from '../measure/rounds.ts';
import { median, ratioOf, summaryOf } from '../measure/statistics.ts';
import { createUnseenMaximums, statsQuery } from '../queries/purchase-queries.ts';
import { decimal, spread, tableOf } from '../report/tables.ts';
import type { Scope } from '../runner/scope.ts';
import { defineSuite } from '../runner/suite.ts';
import { createClient } from '../setup/api-client.ts';
import { attachBase } from '../setup/attached-base.ts';
import { createInProcessApi } from '../setup/in-process-api.ts';
import { scratchDirectory } from '../setup/postgres.ts';
import { openDuckDBEngine, type PreparedShops, prepareShops } from '../setup/prepared-shops.ts';
import { startHttpServer, startProgram } from '../setup/programs.ts';
import type { BenchmarkShop } from '../setup/shops.ts';

/**
 * So few purchases take no time: what remains is planning, and the hand-over to other threads. An
 * organization with at most 5,000 has no base.
 */
const fewPurchases = 6_000;
const target = 1.4;

/** The groups of a query, as the base has them; null for totals alone. */
const queries = [
  { groupBy: undefined, key: null },
  { groupBy: 'status', key: 'payment_status_key' },
  { groupBy: 'day', key: 'created_quarter_hour // 96' },
  { groupBy: 'utm_campaign', key: 'utm_campaign_key' },
] as const satisfies readonly { groupBy: StatsDimension | undefined; key: string | null }[];

export const steps = defineSuite({
  name: 'steps',
  description: 'where the time of uncached statistics goes, from plain statements to HTTP',
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 31 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const sizes = [purchases, fewPurchases].map((count) => ({
      organizations: 1,
      purchases: count,
      seed,
    }));
    const prepared = await prepareShops({ scope, server }, sizes);
    const [shop, smallShop] = prepared.shops as [BenchmarkShop, BenchmarkShop];
    // Each statement then also reads a delta with rows.
    await prepared.database.pool.query(
      'update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where id % 1000 = 7',
    );
    await startProgram(scope, 'sync/main.ts', ['once'], prepared.environment).done();
    const engine = await openDuckDBEngine(scope, prepared);
    const inProcess = createInProcessApi(scope, prepared.database.pool, engine);
    const api = await startHttpServer(scope, 'src/commands/api.ts', prepared.environment);
    const client = createClient(scope, api.url);
    const plain = await openPlain(scope, prepared, shop);
    const plainSmall = await openPlain(scope, prepared, smallShop);
    const unseenMaximum = createUnseenMaximums();
    const figures = [];
    for (const { groupBy, key } of queries) {
      const queryOf = ({ organizationId }: BenchmarkShop) =>
        statsQuery(organizationId, '', { maxValueInCents: unseenMaximum() }, groupBy);
      const tasks = {
        plain: timed(() => plain(key, unseenMaximum())),
        plainSmall: timed(() => plainSmall(key, unseenMaximum())),
        engine: timed(() => queryOf(shop).run(engine)),
        engineSmall: timed(() => queryOf(smallShop).run(engine)),
        inProcess: timed(() => inProcess(queryOf(shop).url, shop)),
        http: timed(() => client.get(queryOf(shop).url, shop)),
      };
      const times = await inRounds(tasks, { rounds, warmUps: 3, signal: scope.signal });
      const difference = (name: keyof typeof times, other: keyof typeof times) =>
        median(times[name].map((time, round) => time.wall - (times[other][round]?.wall ?? 0)));
      const planningMs = difference('engineSmall', 'plainSmall');
      figures.push({
        query: groupBy === undefined ? 'totals' : `by ${groupBy}`,
        plainMs: summaryOf(times.plain, wall),
        planningMs,
        readingMs: difference('engine', 'plain') - planningMs,
        requestMs: difference('inProcess', 'engine'),
        socketsMs: difference('http', 'inProcess'),
        httpMs: summaryOf(times.http, wall),
        ratio: ratioOf(times.http, times.plain, wall),
      });
    }
    return {
      text: [
        tableOf(figures, {
          'uncached statistics, ms': ({ query }) => query,
          'plain statements': ({ plainMs }) => spread(plainMs),
          '+ planning': ({ planningMs }) => decimal(planningMs),
          '+ delta, labels, sums': ({ readingMs }) => decimal(readingMs),
          '+ key check, JSON': ({ requestMs }) => decimal(requestMs),
          '+ sockets': ({ socketsMs }) => decimal(socketsMs),
          HTTP: ({ httpMs }) => spread(httpMs),
          'HTTP / plain': ({ ratio }) => spread(ratio, 2),
        }),
        `The target is at most ${target} times the plain statements.`,
      ],
      figures: { steps: figures, target },
    };
  },
});

/** The statements that DuckDB needs for a query on the base alone: the groups, and the number of customers. */
async function openPlain(
  scope: Scope,
  { database, dataDirectory }: PreparedShops,
  { organizationId }: BenchmarkShop,
) {
  const settings = readSettings(childEnvironment(database.url));
  const instance = await createInstance({
    threads: settings.duckdbThreads,
    memoryLimit: settings.duckdbMemoryLimit,
    dataDirectory,
    spillDirectory: await scratchDirectory(scope),
  });
  const connection = await instance.connect();
  scope.afterwards(async () => {
    connection.closeSync();
    instance.closeSync();
  });
  await attachBase(instance, connection, { dataDirectory, organizationId }, 'base');
  return async (key: string | null, value: bigint) => {
    const matching = sql`purchase_value_in_cents <= ${value}`;
    await queryRows(
      connection,
      sql`
        select ${raw(key === null ? '' : `${key} as key, `)} count(*), sum(purchase_value_in_cents) as revenue
        from base.purchase where ${matching} ${raw(key === null ? '' : 'group by key')}
        order by revenue desc limit 11`,
    );
    await queryRows(
      connection,
      sql`select count(*) from (select customer_key from base.purchase where ${matching} group by 1)`,
    );
  };
}
