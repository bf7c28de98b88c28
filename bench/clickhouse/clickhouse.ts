import { readSettings } from '../../src/settings/settings.ts';
import { inRounds, timed } from '../measure/rounds.ts';
import { createPlainSqlEngine } from '../queries/plain-sql.ts';
import { requireEqualResults } from '../queries/purchase-queries.ts';
import { decimal } from '../report/tables.ts';
import type { Scope } from '../runner/scope.ts';
import { defineSuite } from '../runner/suite.ts';
import { createClient } from '../setup/api-client.ts';
import { createInProcessApi } from '../setup/in-process-api.ts';
import { scratchDirectory } from '../setup/postgres.ts';
import { prepareShop } from '../setup/prepared-shops.ts';
import { startHttpServer } from '../setup/programs.ts';
import { createClickHouseEngine } from './engine.ts';
import { describeFigures, type Figure, figureOf } from './figures.ts';
import { comparedQueries } from './queries.ts';
import { type ClickHouseSession, openClickHouse } from './session.ts';
import { statementsOf } from './statements.ts';
import { loadClickHouse } from './table.ts';

/** Loads the same rows everywhere, checks that all results are equal, and then measures. */
export const clickhouse = defineSuite({
  name: 'clickhouse',
  description:
    'the service, over HTTP, against ClickHouse (`npm run bench:clickhouse` installs it)',
  isQuick: false,
  defaults: {
    purchases: 1_000_000,
    seed: 42,
    rounds: 15,
    customerIndex: false,
    withPostgres: false,
  },
  command: 'npm run bench:clickhouse --',
  async run({ options, scope, server }) {
    const { purchases, seed, rounds, customerIndex, withPostgres } = options;
    // First: without the package, the suite fails before it loads data.
    const session = await startClickHouse(scope);
    const size = { purchases, seed };
    const { shop, database, environment, duckdb } = await prepareShop({ scope, server }, size);
    const { organizationId } = shop;
    console.log(`Loading ClickHouse ${session.version}.`);
    const directory = await scratchDirectory(scope);
    const table = { organizationId, directory, hasCustomerIndex: customerIndex };
    await loadClickHouse(session, database.pool, table);
    const clickhouse = createClickHouseEngine(session);
    const postgres = withPostgres ? await createPlainSqlEngine(scope, database) : null;
    const settings = { ...environment, RESPONSE_CACHE_MIB: '0' };
    const { url: origin } = await startHttpServer(scope, 'src/commands/api.ts', settings);
    const { get } = createClient(scope, origin);
    const queries = await comparedQueries(organizationId, database.pool, duckdb);
    console.log(`Comparing the results of ${queries.length} queries, then measuring.`);
    const engines = [clickhouse, ...(postgres === null ? [] : [postgres])];
    await requireEqualResults(scope.signal, queries, [duckdb, ...engines]);
    // The service must send the same bytes as the API over ClickHouse.
    const getWithClickHouse = createInProcessApi(scope, database.pool, clickhouse);
    for (const { name, url } of queries) {
      const { body } = await get(url, shop);
      if (body !== (await getWithClickHouse(url, shop))) {
        throw new Error(`the responses differ on: ${name}`);
      }
    }
    const figures: Figure[] = [];
    for (const query of queries) {
      const tasks = {
        http: timed(() => get(query.url, shop)),
        engine: timed(() => query.run(duckdb)),
        statements: timed(await statementsOf(() => query.run(duckdb))),
        clickhouse: timed(() => query.run(clickhouse)),
        ...(postgres && { postgres: timed(() => query.run(postgres)) }),
      };
      const times = await inRounds(tasks, { rounds, signal: scope.signal });
      const figure = figureOf(query, times);
      figures.push(figure);
      // A large run takes long: print the progress.
      console.log(`${figures.length}. ${figure.query}: ${decimal(figure.ratio.median, 2)}`);
    }
    const clickhouseVersion = session.version;
    return {
      text: [...describeFigures(figures), `ClickHouse ${clickhouseVersion}.`],
      figures: { clickhouseVersion, queries: figures },
    };
  },
});

async function startClickHouse(scope: Scope): Promise<ClickHouseSession> {
  const opening = openClickHouse(await scratchDirectory(scope), readSettings().duckdbThreads);
  scope.afterwards(async () => (await opening.catch(() => null))?.close());
  return opening;
}
