import type { Database } from '../../src/postgres/connection/pool.ts';
import { inRounds, type Time, timed, wall } from '../measure/rounds.ts';
import { median, ratioOf, type Summary, summaryOf } from '../measure/statistics.ts';
import {
  commonQueries,
  type PurchaseQuery,
  requireEqualResults,
} from '../queries/purchase-queries.ts';
import { decimal, spread, tableOf } from '../report/tables.ts';
import { defineSuite, type ReportText } from '../runner/suite.ts';
import { type ApiClient, createClient } from '../setup/api-client.ts';
import { scratchDirectory } from '../setup/postgres.ts';
import { prepareShops } from '../setup/prepared-shops.ts';
import { type ProgramEnvironment, startHttpServer, startProgram } from '../setup/programs.ts';
import type { BenchmarkShop } from '../setup/shops.ts';
import { createPlainStatistics } from './plain-statistics.ts';
import { startClickHouseService } from './service.ts';
import { loadClickHouse } from './table.ts';

/**
 * Measures twice: after the load, and after a change of one purchase in a hundred. All responses
 * must have the same bytes.
 */
export const allEngines = defineSuite({
  name: 'all-engines',
  description:
    'over HTTP: DuckDB files, ClickHouse, Postgres (`npm run bench:clickhouse` installs it)',
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 5, withoutPostgres: false },
  async run({ options, scope, server }) {
    const { purchases, seed, rounds, withoutPostgres } = options;
    const prepared = await prepareShops({ scope, server }, [{ purchases, seed, organizations: 1 }]);
    const { database, environment } = prepared;
    const shop = prepared.shops[0] as BenchmarkShop;
    const { organizationId } = shop;
    console.log('Loading ClickHouse.');
    const clickhouse = await startClickHouseService(scope, prepared);
    await clickhouse.sync();
    const api = async (more: ProgramEnvironment) => {
      const settings = { ...more, RESPONSE_CACHE_MIB: '0', QUERY_TIMEOUT_MS: '600000' };
      const { url } = await startHttpServer(scope, 'src/commands/api.ts', settings);
      return createClient(scope, url);
    };
    const noFiles = { ...environment, DATA_DIR: await scratchDirectory(scope) };
    const apis = {
      duckdb: await api(environment),
      clickhouse: await api(clickhouse.environment),
      ...(!withoutPostgres && { postgres: await api(noFiles) }),
    };
    const { postgres } = apis;
    const queries = await commonQueries(organizationId, database.pool);
    const plain = createPlainStatistics(clickhouse.plain);

    const measure = async (rows: string): Promise<Measurement> => {
      await loadClickHouse(clickhouse.plain, database.url, organizationId);
      await requireEqualResults(scope.signal, queries.filter(isPlain), [clickhouse.engine, plain]);
      console.log(`Measuring ${queries.length} queries, ${rows}.`);
      const figures: Figure[] = [];
      for (const query of queries) {
        const { name, url } = query;
        await requireEqualBodies(name, Object.values(apis), url, shop);
        const tasks = {
          duckdb: timed(() => apis.duckdb.get(url, shop)),
          clickhouse: timed(() => apis.clickhouse.get(url, shop)),
          ...(postgres && { postgres: timed(() => postgres.get(url, shop)) }),
          engine: timed(() => query.run(clickhouse.engine)),
          ...(isPlain(query) && { plain: timed(() => query.run(plain)) }),
        };
        figures.push(figureOf(name, await inRounds(tasks, { rounds, signal: scope.signal })));
      }
      return { rows, figures };
    };
    const loaded = await measure('without changes since the load');
    await changePurchases(database.pool, organizationId);
    await startProgram(scope, 'sync/main.ts', ['once'], environment).done();
    await clickhouse.sync();
    if (!(await clickhouse.hasChanges(organizationId))) {
      throw new Error('the worker loaded ClickHouse again, so no changes can be measured');
    }
    const changed = await measure('with one purchase in a hundred changed');
    return {
      text: [...[loaded, changed].flatMap(describe), legend, `ClickHouse ${clickhouse.version}.`],
      figures: { clickhouseVersion: clickhouse.version, measurements: [loaded, changed] },
    };
  },
});

/** The plain statements are those of statistics: ClickHouse's own time series fill no gaps. */
const isPlain = ({ name }: PurchaseQuery): boolean => name.startsWith('statistics');

async function requireEqualBodies(
  name: string,
  apis: readonly ApiClient[],
  url: string,
  shop: BenchmarkShop,
): Promise<void> {
  const responses = await Promise.all(apis.map(({ get }) => get(url, shop)));
  if (new Set(responses.map(({ body }) => body)).size > 1) {
    throw new Error(`the responses differ on: ${name}`);
  }
}

/** Values, states, customers, and the existence of purchases of any age change. */
async function changePurchases(database: Database, organizationId: bigint): Promise<void> {
  const changes = [
    `update purchases set purchase_value_in_cents = purchase_value_in_cents + 100
     where organization_id = $1 and id % 1000 < 5`,
    `update purchases set payment_status = 'refunded'
     where organization_id = $1 and id % 1000 in (5, 6)`,
    `update purchases
     set customer_id = (select min(id) from customers where organization_id = $1)
     where organization_id = $1 and id % 1000 = 7`,
    'delete from purchases where organization_id = $1 and id % 1000 in (8, 9)',
  ];
  for (const change of changes) await database.query(change, [organizationId]);
}

/** The times of one query. All ratios are of the same round. */
type Figure = {
  readonly query: string;
  readonly milliseconds: { readonly [Name in keyof Times]: Summary };
  /** ClickHouse / DuckDB, both over HTTP. */
  readonly ratio: Summary;
  /** The engine / ClickHouse's own statement. */
  readonly plainRatio: Summary | null;
};

type Measurement = { readonly rows: string; readonly figures: readonly Figure[] };
type Times = Readonly<Record<'duckdb' | 'clickhouse' | 'engine', Time[]>> & {
  readonly [Name in 'postgres' | 'plain']?: Time[];
};

function figureOf(query: string, times: Times): Figure {
  const summaries = Object.entries(times).map(([name, each]) => [name, summaryOf(each, wall)]);
  return {
    query,
    milliseconds: Object.fromEntries(summaries) as Figure['milliseconds'],
    ratio: ratioOf(times.clickhouse, times.duckdb, wall),
    plainRatio: times.plain === undefined ? null : ratioOf(times.engine, times.plain, wall),
  };
}

function describe({ rows, figures }: Measurement): ReportText {
  const ratios = figures.flatMap(({ plainRatio }) =>
    plainRatio === null ? [] : [plainRatio.median],
  );
  return [
    `Milliseconds, ${rows}:`,
    tableOf(figures, {
      query: ({ query }) => query,
      DuckDB: ({ milliseconds }) => spread(milliseconds.duckdb),
      ClickHouse: ({ milliseconds }) => spread(milliseconds.clickhouse),
      Postgres: ({ milliseconds: { postgres } }) =>
        postgres === undefined ? '–' : spread(postgres),
      'ClickHouse / DuckDB': ({ ratio }) => spread(ratio, 2),
      engine: ({ milliseconds }) => decimal(milliseconds.engine.median),
      plain: ({ milliseconds }) => decimal(milliseconds.plain?.median ?? Number.NaN),
      'engine / plain': ({ plainRatio }) => (plainRatio === null ? '–' : spread(plainRatio, 2)),
    }),
    `engine / plain: ${decimal(median(ratios), 2)} (median of ${ratios.length} queries)`,
  ];
}

const legend =
  'DuckDB, ClickHouse, Postgres: the whole response of an API that reads the files, ClickHouse or ' +
  'Postgres, with the check of the key and without a response cache. engine: the queries of the ' +
  "API's engine, sent by this process to ClickHouse over HTTP. plain: one statement over a plain " +
  'table of the same rows in the same server, which the engine / plain ratio compares.';
