import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { Shortcuts } from '../../src/duckdb/shortcuts.ts';
import { createDuckDBEngine } from '../../src/engines/duckdb/engine.ts';
import { createTickReader } from '../../src/purchase-store/ticks/published-tick.ts';
import { childEnvironment, queryQueueOptions, readSettings } from '../../src/settings/settings.ts';
import type { Scope } from '../runner/scope.ts';
import type { Bench } from '../runner/suite.ts';
import { type BenchmarkDatabase, createDatabase, scratchDirectory } from './postgres.ts';
import { type ProgramEnvironment, startProgram } from './programs.ts';
import { type BenchmarkShop, type ShopSize, type ShopSizes, seedShops } from './shops.ts';

/** Organizations in Postgres and in DuckDB files. */
export type PreparedShops = {
  readonly database: BenchmarkDatabase;
  readonly shops: readonly BenchmarkShop[];
  /** Where the worker publishes. */
  readonly dataDirectory: string;
  /** For programs over the same database and files. */
  readonly environment: ProgramEnvironment;
};

export async function prepareShops(
  bench: Pick<Bench, 'server' | 'scope'>,
  sizes: readonly ShopSizes[],
): Promise<PreparedShops> {
  const { scope } = bench;
  const database = await createDatabase(bench);
  const shops: BenchmarkShop[] = [];
  for (const each of sizes) shops.push(...(await seedShops(scope, database, each)));
  const dataDirectory = await scratchDirectory(scope);
  const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory, LOG_LEVEL: 'warn' };
  await startProgram(scope, 'sync/main.ts', ['once'], environment).done();
  // Seeding logged every purchase. Otherwise autovacuum and the checkpointer would work later.
  await database.pool.query('vacuum purchase_changes');
  await database.pool.query('checkpoint');
  return { database, shops, dataDirectory, environment };
}

/** The API's engine in this process, with the API's settings. */
export async function openDuckDBEngine(
  scope: Scope,
  { database, dataDirectory }: Pick<PreparedShops, 'database' | 'dataDirectory'>,
  shortcuts: Partial<Shortcuts> = {},
): Promise<PurchaseEngine> {
  const settings = readSettings(childEnvironment(database.url));
  const engine = await createDuckDBEngine({
    dataDirectory,
    ticks: createTickReader(dataDirectory),
    threads: settings.duckdbThreads,
    memoryLimit: settings.duckdbMemoryLimit,
    ...queryQueueOptions(settings),
    shortcuts,
    timeoutMs: 60_000,
    onError: (_organizationId, error) => scope.fail(error),
  });
  scope.afterwards(() => engine.close());
  return engine;
}

/** One organization, with the engine in this process. */
export async function prepareShop(bench: Pick<Bench, 'server' | 'scope'>, size: ShopSize) {
  const prepared = await prepareShops(bench, [{ ...size, organizations: 1 }]);
  const shop = prepared.shops[0] as BenchmarkShop;
  return { ...prepared, shop, duckdb: await openDuckDBEngine(bench.scope, prepared) };
}
