import { setTimeout as sleep } from 'node:timers/promises';
import { errorText } from '../../src/process/error-text.ts';
import type { Bench } from '../runner/suite.ts';
import { type ApiClient, createClient } from './api-client.ts';
import { type PreparedShops, prepareShops } from './prepared-shops.ts';
import { startHttpServer, startService } from './programs.ts';
import type { ShopSizes } from './shops.ts';

/** A failed request shows so many of the warnings that the processes logged last. */
const shownWarnings = 5;
const logDelayMs = 200;

type ProgramSettings = Readonly<Record<string, string>>;

/** Organizations, with the worker and the API as real processes. */
export type RunningService = PreparedShops &
  ApiClient & {
    readonly worker: { readonly pid: number };
    readonly api: { readonly pid: number; readonly url: string };
    /** Warnings and errors that the processes logged; normally none. */
    warnings(): string[];
  };

/** Resolves once every organization is loaded and both processes run, with these settings. */
export async function startRunningService(
  { scope, server }: Pick<Bench, 'scope' | 'server'>,
  sizes: readonly ShopSizes[],
  settings: { readonly worker?: ProgramSettings; readonly api?: ProgramSettings } = {},
): Promise<RunningService> {
  const prepared = await prepareShops({ scope, server }, sizes);
  const { environment, shops } = prepared;
  const worker = startService(scope, 'sync/main.ts', [], { ...environment, ...settings.worker });
  const apiEnvironment = { ...environment, ...settings.api };
  const api = await startHttpServer(scope, 'src/commands/api.ts', apiEnvironment);
  const client = createClient(scope, api.url);
  // The first query of an organization makes the API open its file and follow its generations.
  for (const shop of shops) await client.get('/v1/purchases?limit=1', shop);
  const lines = () => [worker, api].flatMap((program) => program.output().split('\n'));
  const warnings = () => lines().filter((line) => /^\{"level":[456]0,/.test(line));
  /** Adds the last warnings to a failure. They arrive by another way than the response. */
  const explain = async (error: unknown): Promise<never> => {
    await sleep(logDelayMs);
    throw new Error([errorText(error), ...warnings().slice(-shownWarnings)].join('\n'));
  };
  return {
    ...prepared,
    open: (...request) => client.open(...request).catch(explain),
    get: (...request) => client.get(...request).catch(explain),
    worker,
    api,
    warnings,
  };
}
