import {
  createDuckDBEngine,
  type DuckDBEngine,
  type DuckDBEngineOptions,
} from '../../src/engines/duckdb/engine.ts';

export async function createTestDuckDBEngine(
  dataDirectory: string,
  options: Partial<DuckDBEngineOptions> = {},
): Promise<DuckDBEngine> {
  return createDuckDBEngine({
    dataDirectory,
    threads: 2,
    memoryLimit: '512MiB',
    concurrency: 3,
    queueLimit: 500,
    queueLimitPerClient: 100,
    timeoutMs: 30_000,
    // Processes group the customers of such small shops.
    minPurchasesForFirsts: 0,
    onError: (_organizationId, error) => {
      throw error;
    },
    ...options,
  });
}
