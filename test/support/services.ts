import { tmpdir } from 'node:os';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createExportProcesses } from '../../src/exports/export-process.ts';
import { createExportWriter } from '../../src/exports/writer.ts';
import type { Services } from '../../src/http/services.ts';
import type { Database } from '../../src/postgres/pool.ts';

/** What the API serves from, as the server wires it. */
export function testServices(database: Database, purchases: PurchaseEngine): Services {
  const processes = createExportProcesses({
    threads: 2,
    memoryLimit: '256MiB',
    dataDirectory: tmpdir(),
  });
  return {
    database,
    purchases,
    writeExport: createExportWriter(processes),
    publicAppUrl: 'https://app.example',
  };
}
