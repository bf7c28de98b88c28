import { tmpdir } from 'node:os';
import type { ChangeFeed } from '../../src/domain/purchase-changes.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createExportWriters } from '../../src/exports/export-process.ts';
import type { ResourceServices } from '../../src/http/resource-services.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { createPostgresQueryPool } from '../../src/postgres/connection/query-pool.ts';
import { createTestChangeFeed } from './engines.ts';

const writers = createExportWriters({
  threads: 2,
  memoryLimit: '256MiB',
  dataDirectory: tmpdir(),
});
export const testExportWriter = writers.writeExport;

/** The services of the API, as the server creates them. */
export function testServices(
  database: Database,
  purchases: PurchaseEngine,
  changes: ChangeFeed = createTestChangeFeed(tmpdir()),
): ResourceServices {
  return {
    postgres: createPostgresQueryPool(database),
    exportDatabase: database,
    purchases,
    changes,
    ...writers,
    publicAppUrl: 'https://app.example',
  };
}
