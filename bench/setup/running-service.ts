import type { Bench } from '../runner/suite.ts';
import { type ApiClient, createClient } from './api-client.ts';
import { type PreparedShops, prepareShops } from './prepared-shops.ts';
import { startService } from './programs.ts';
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

/** The setting of an API without a rate limit. */
export const unlimited = { RATE_LIMIT_PER_MINUTE: '1000000' };

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
    const api = startService(scope, 'src/commands/api.ts', [], {
      ...environment,
      HOST: '127.0.0.1',
      PORT: '0',
      ...unlimited,
      ...settings,
    });
    const [, url = ''] = await api.printed(/Listening on (http\S+)/);
    const client = createClient(scope, url);
    // The first query of an organization makes the API open its file and follow its generations.
    for (const shop of shops) await client.get('/v1/purchases?limit=1', shop);
    const lines = () => [worker, api].flatMap((program) => program.output().split('\n'));
    return {
      ...prepared,
      ...client,
      worker,
      api: { pid: api.pid, url },
      withApi,
      warnings: () => lines().filter((line) => line.startsWith('{')),
    };
  };
  return withApi({});
}
