import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { PurchaseEngine } from '../src/domain/purchase-engine.ts';
import { startEmbeddedPostgres } from '../src/embedded-postgres/cluster.ts';
import { createInstance } from '../src/engines/duckdb/connection.ts';
import { createDuckDBEngine } from '../src/engines/duckdb/engine.ts';
import { createPostgresEngine } from '../src/engines/postgres/engine.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { createPool, type Database } from '../src/postgres/pool.ts';
import { readSystemIdentifier } from '../src/postgres/system-identifier.ts';
import { seedDatabase } from '../src/seed/seed-database.ts';
import { dataFolderId } from '../sync/data-folder.ts';
import { createWorker, type Worker } from '../sync/worker.ts';

/** One organization of demo data in a real Postgres, loaded into DuckDB files. */
export type BenchmarkShop = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly databaseUrl: string;
  readonly worker: Worker;
  readonly duckdb: PurchaseEngine;
  readonly postgres: PurchaseEngine;
  readonly seedMs: number;
  readonly loadMs: number;
  close(): Promise<void>;
};

export async function openShop(purchases: number, seed: number): Promise<BenchmarkShop> {
  const directory = mkdtempSync(join(tmpdir(), 'crm-data-service-bench-'));
  const server = await startEmbeddedPostgres({
    directory,
    database: 'bench',
    settings: { shared_buffers: '1GB', max_wal_size: '4GB' },
  });
  await migrate(server.url);
  const seedStartedAt = performance.now();
  const [organization] = await seedDatabase(server.url, {
    organizations: 1,
    customers: Math.max(1, Math.floor(purchases / 10)),
    purchases,
    seed,
    until: new Date('2026-01-01T00:00:00Z'),
  });
  const seedMs = performance.now() - seedStartedAt;
  if (organization === undefined) throw new Error('nothing was seeded');
  const { organizationId } = organization;

  const database = createPool(server.url, { max: 8, applicationName: 'bench' });
  await database.query('vacuum analyze');
  const dataDirectory = join(directory, 'data');
  const instance = await createInstance({
    threads: 2,
    memoryLimit: '2GiB',
    spillDirectory: join(directory, 'spill'),
  });
  const worker = createWorker({
    database,
    instance,
    dataDirectory,
    dataFolderId: await dataFolderId(dataDirectory),
    concurrency: 2,
    pollIntervalMs: 100,
    log: pino({ level: 'silent' }),
  });
  const loadStartedAt = performance.now();
  await worker.once([organizationId]);
  const loadMs = performance.now() - loadStartedAt;
  const duckdb = await createDuckDBEngine({
    dataDirectory,
    systemIdentifier: await readSystemIdentifier(database),
    threads: 2,
    memoryLimit: '2GiB',
    concurrency: 3,
    timeoutMs: 60_000,
    onError: (_organizationId, error) => {
      throw error;
    },
  });
  return {
    organizationId,
    database,
    databaseUrl: server.url,
    worker,
    duckdb,
    postgres: createPostgresEngine(database),
    seedMs,
    loadMs,
    async close() {
      await duckdb.close();
      await worker.close();
      instance.closeSync();
      await database.end();
      await server.stop();
      await rm(server.home, { recursive: true, force: true });
      await rm(directory, { recursive: true, force: true });
    },
  };
}
