import type { Bench } from '../runner/suite.ts';
import { countGenerations, type GenerationCount } from '../suites/freshness/generation-count.ts';
import { type BenchmarkDatabase, createDatabase, scratchDirectory } from './postgres.ts';
import { startProgram, startService } from './programs.ts';
import { type BenchmarkShop, keyOf, type ShopSizes, seedShops } from './shops.ts';

/** Shops, the worker and the API over them: real processes, as operators run them. */
export type RunningService = {
  readonly database: BenchmarkDatabase;
  readonly shops: readonly BenchmarkShop[];
  readonly worker: { readonly pid: number };
  readonly api: { readonly pid: number; readonly url: string };
  /** Where the worker publishes. */
  readonly dataDirectory: string;
  /** The same with another API over the same files, of other settings. */
  withApi(settings: Readonly<Record<string, string>>): Promise<RunningService>;
  /** Asks the API for one organization. */
  get(path: string, shop: BenchmarkShop): Promise<Response>;
  /** Counts what is published from now on. */
  countGenerations(): () => GenerationCount;
  /** Warnings and errors that the processes logged lately; normally none. */
  complaints(): string[];
};

/** The setting of an API that is asked as often as it can answer. */
export const unlimited = { RATE_LIMIT_PER_MINUTE: '1000000' };

/** Resolves once every shop is loaded and both processes run. */
export async function startRunningService(
  bench: Bench,
  sizes: ShopSizes | readonly ShopSizes[],
  workerSettings: Readonly<Record<string, string>> = {},
): Promise<RunningService> {
  const { scope } = bench;
  const database = await createDatabase(bench);
  const shops: BenchmarkShop[] = [];
  for (const each of [sizes].flat()) shops.push(...(await seedShops(scope, database, each)));
  const dataDirectory = await scratchDirectory(scope);
  const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory, LOG_LEVEL: 'warn' };
  await startProgram(scope, 'sync/main.ts', ['once'], environment).done();
  // Seeding logged every purchase: in time autovacuum clears that away, and the disk rests.
  await database.pool.query('vacuum purchase_changes');
  await database.pool.query('checkpoint');

  const worker = startService(scope, 'sync/main.ts', [], { ...environment, ...workerSettings });
  const startApi = async (settings: Readonly<Record<string, string>>): Promise<RunningService> => {
    const api = startService(scope, 'src/commands/api.ts', [], {
      ...environment,
      HOST: '127.0.0.1',
      PORT: '0',
      ...unlimited,
      ...settings,
    });
    const [, url = ''] = await api.printed(/Listening on (http\S+)/);
    const get = (path: string, shop: BenchmarkShop) =>
      fetch(`${url}${path}`, { headers: keyOf(shop) });
    // The first question makes the API open the organization's file, and follow it from then on.
    for (const shop of shops) await (await get('/v1/purchases?limit=1', shop)).arrayBuffer();
    return {
      database,
      shops,
      worker,
      api: { pid: api.pid, url },
      dataDirectory,
      withApi: startApi,
      countGenerations: () => countGenerations(scope, dataDirectory, shops),
      get,
      complaints: () =>
        [worker, api].flatMap((program) =>
          program
            .output()
            .split('\n')
            .filter((line) => line.startsWith('{')),
        ),
    };
  };
  return startApi({});
}
