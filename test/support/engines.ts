import type { ChangeFeed } from '../../src/domain/purchase-changes.ts';
import {
  createDuckDBEngine,
  type DuckDBEngine,
  type DuckDBEngineOptions,
} from '../../src/engines/duckdb/engine.ts';
import { createChangeFeed } from '../../src/purchase-store/feed/change-feed.ts';
import { createTickReader } from '../../src/purchase-store/ticks/published-tick.ts';

export async function createTestDuckDBEngine(
  dataDirectory: string,
  options: Partial<DuckDBEngineOptions> = {},
): Promise<DuckDBEngine> {
  return createDuckDBEngine({
    dataDirectory,
    ticks: createTickReader(dataDirectory),
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

export const createTestChangeFeed = (
  dataDirectory: string,
  onError: (organizationId: bigint, error: unknown) => void = () => {},
  ticks = createTickReader(dataDirectory),
): ChangeFeed => createChangeFeed({ dataDirectory, ticks, onError });
