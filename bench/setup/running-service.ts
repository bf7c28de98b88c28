import type { Bench } from '../runner/suite.ts';
import { type ApiClient, createClient } from './api-client.ts';
import { type PreparedShops, prepareShops } from './prepared-shops.ts';
import { startHttpServer, startService } from './programs.ts';
import type { ShopSizes } from './shops.ts';

type ProgramSettings = Readonly<Record<string, string>>;

/** Organizations, with the worker and the API as real processes. */
export type RunningService = PreparedShops &
  ApiClient & {
    readonly worker: { readonly pid: number };
    readonly api: { readonly pid: number; readonly url: string };
    /** The same with another API, which has these settings. */
    withApi(settings: ProgramSettings): Promise<RunningService>;
    /** Warnings and errors that the processes logged; normally none. */
    warnings(): string[];
  };

/** Resolves once every organization is loaded and both processes run. */
export async function startRunningService(
  { scope, server }: Pick<Bench, 'scope' | 'server'>,
  sizes: readonly ShopSizes[],
  workerSettings: ProgramSettings = {},
): Promise<RunningService> {
  const prepared = await prepareShops({ scope, server }, sizes);
  const { environment, shops } = prepared;
  const worker = startService(scope, 'sync/main.ts', [], { ...environment, ...workerSettings });
  const withApi = async (settings: ProgramSettings): Promise<RunningService> => {
    const api = await startHttpServer(scope, 'src/commands/api.ts', {
      ...environment,
      ...settings,
    });
    const client = createClient(scope, api.url);
    // The first query of an organization makes the API open its file and follow its generations.
    for (const shop of shops) await client.get('/v1/purchases?limit=1', shop);
    const lines = () => [worker, api].flatMap((program) => program.output().split('\n'));
    return {
      ...prepared,
      ...client,
      worker,
      api,
      withApi,
      warnings: () => lines().filter((line) => line.startsWith('{')),
    };
  };
  return withApi({});
}
