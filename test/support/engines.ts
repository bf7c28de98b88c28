import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createDuckDBEngine, type DuckDBEngineOptions } from '../../src/engines/duckdb/engine.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { readSystemIdentifier } from '../../src/postgres/system-identifier.ts';

export async function createTestDuckDBEngine(
  database: Database,
  dataDirectory: string,
  options: Partial<DuckDBEngineOptions> = {},
): Promise<PurchaseEngine> {
  return createDuckDBEngine({
    dataDirectory,
    systemIdentifier: await readSystemIdentifier(database),
    threads: 2,
    memoryLimit: '512MiB',
    concurrency: 3,
    queueLimit: 500,
    queueLimitPerAsker: 100,
    timeoutMs: 30_000,
    onError: (_organizationId, error) => {
      throw error;
    },
    ...options,
  });
}
