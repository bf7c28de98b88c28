import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createDuckDBEngine, type DuckDBEngineOptions } from '../../src/engines/duckdb/engine.ts';

export async function createTestDuckDBEngine(
  dataDirectory: string,
  options: Partial<DuckDBEngineOptions> = {},
): Promise<PurchaseEngine> {
  return createDuckDBEngine({
    dataDirectory,
    threads: 2,
    memoryLimit: '512MiB',
    concurrency: 3,
    queueLimit: 500,
    queueLimitPerClient: 100,
    timeoutMs: 30_000,
    onError: (_organizationId, error) => {
      throw error;
    },
    ...options,
  });
}
