import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createDuckDBEngine } from '../../src/engines/duckdb/engine.ts';
import { childEnvironment, readSettings } from '../../src/settings.ts';
import type { Scope } from '../runner/scope.ts';
import { type BenchmarkDatabase, scratchDirectory } from './postgres.ts';
import { startProgram } from './programs.ts';

/** Lets a worker copy all organizations; gives the folder that their files are in. */
export async function loadFiles(scope: Scope, database: BenchmarkDatabase): Promise<string> {
  const dataDirectory = await scratchDirectory(scope);
  const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory };
  await startProgram(scope, 'sync/main.ts', ['once'], environment).done();
  return dataDirectory;
}

/** Answers in this process, with the settings that the API has, from files that there are. */
export async function openDuckDBEngine(
  scope: Scope,
  database: BenchmarkDatabase,
  dataDirectory: string,
): Promise<PurchaseEngine> {
  const settings = readSettings(childEnvironment(database.url));
  const duckdb = await createDuckDBEngine({
    dataDirectory,
    threads: settings.duckdbThreads,
    memoryLimit: settings.duckdbMemoryLimit,
    concurrency: settings.queryConcurrency,
    queueLimit: settings.queryQueueLimit,
    queueLimitPerClient: settings.queryQueueLimitPerKey,
    timeoutMs: 60_000,
    onError: (_organizationId, error) => scope.fail(error),
  });
  scope.afterwards(() => duckdb.close());
  return duckdb;
}
