import { copyFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { createInstance, quotePath } from '../../src/duckdb/connection.ts';
import { withSnapshot } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { createBases } from '../../sync/files/base-file.ts';
import { type DeltaFile, deltaPath, openDelta } from '../../sync/files/delta-file.ts';
import { publish } from '../../sync/publish/publish.ts';
import type { OrganizationReport } from '../../sync/status/report.ts';
import {
  type Verification,
  type VerifyOptions,
  verifyOrganization,
} from '../../sync/verification/verify.ts';
import { createTestDatabase, type TestDatabase } from './postgres.ts';
import { addCustomer, addOrganization, addPurchase } from './shop.ts';
import { createTestWorker } from './sync.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** What is published of purchases, open to damage, and its verification. */
export type VerifiedShop = {
  readonly database: TestDatabase;
  readonly directory: string;
  readonly organization: bigint;
  /** Brings every organization up to date, and publishes. */
  sync(): Promise<void>;
  /** Follows changes until the signal is aborted. */
  follow(signal: AbortSignal, onReport?: (report: OrganizationReport) => void): Promise<void>;
  /** The published base. */
  basePath(): string;
  /** Runs SQL on the published base, or on another file, as DuckDB's current database. */
  damage(statement: string, path?: string): Promise<void>;
  /** The published delta, and the worker's own. */
  deltaPath(): string;
  livePath(): string;
  verify(options?: Partial<VerifyOptions>): Promise<Verification>;
  /** Works on the worker's own file within a snapshot of Postgres, and publishes the outcome. */
  onLiveFile<Result>(
    work: (live: DeltaFile, source: pg.ClientBase) => Promise<Result>,
  ): Promise<Result>;
  close(): Promise<void>;
};

export async function createVerifiedShop(): Promise<VerifiedShop> {
  const database = await createTestDatabase();
  database.pool.on('error', () => {});
  const directory = await temporaryDirectory();
  const organization = await addOrganization(database.pool, 'Livraria Ipê');
  const folder = organizationDirectory(directory.path, organization);
  const duckdb = {
    threads: 2,
    memoryLimit: '256MiB',
    spillDirectory: join(directory.path, 'spill', 'test'),
  };

  const withWorker = async (
    work: (worker: Awaited<ReturnType<typeof createTestWorker>>) => Promise<void>,
    onReport: (report: OrganizationReport) => void = () => {},
  ) => {
    const worker = await createTestWorker(database.pool, directory.path, {
      onReport: (_organizationId, report) => onReport(report),
    });
    await work(worker).finally(() => worker.close());
  };
  const runOnFile = async (path: string, statement: string) => {
    const instance = await createInstance(duckdb);
    const connection = await instance.connect();
    // A copy, because another process may have the file open.
    await copyFile(path, `${path}.damaged`);
    await connection.run(`attach ${quotePath(`${path}.damaged`)} as file; use file`);
    await connection.run(statement);
    await connection.run('checkpoint file');
    connection.closeSync();
    instance.closeSync();
    await rename(`${path}.damaged`, path);
  };
  const basePath = () => join(folder, readPublished(folder)?.base ?? 'nothing');

  return {
    database,
    directory: directory.path,
    organization,
    sync: () => withWorker((worker) => worker.syncAll()),
    follow: (signal, onReport) => withWorker((worker) => worker.run(signal), onReport),
    basePath,
    damage: (statement, path = basePath()) => runOnFile(path, statement),
    deltaPath: () => join(folder, readPublished(folder)?.file ?? 'nothing'),
    livePath: () => deltaPath(folder, 'live'),
    verify: (options = {}) =>
      verifyOrganization({
        organizationId: organization,
        database: database.pool,
        dataDirectory: directory.path,
        duckdb,
        signal: new AbortController().signal,
        patienceMs: 0,
        ...options,
      }),
    async onLiveFile(work) {
      const instance = await createInstance(duckdb);
      const context = {
        instance,
        bases: createBases(instance),
        dataDirectory: directory.path,
        organizationId: organization,
      };
      const live = await openDelta(context, 'live');
      if (live === null) throw new Error('there is no live delta');
      try {
        const result = await withSnapshot(database.pool, (source) => work(live, source));
        await publish(live);
        return result;
      } finally {
        await live.close();
        instance.closeSync();
      }
    },
    async close() {
      await database.drop();
      await directory.remove();
    },
  };
}

/** Purchases, ten a day, each with its own texts; returns their numbers, oldest first. */
export async function addPurchases(
  { database, organization }: Pick<VerifiedShop, 'database' | 'organization'>,
  count: number,
): Promise<bigint[]> {
  const customers = await Promise.all(
    [1, 2, 3].map(() => addCustomer(database.pool, organization)),
  );
  const ids: bigint[] = [];
  for (let index = 0; index < count; index += 1) {
    ids.push(
      await addPurchase(database.pool, organization, {
        customer_id: customers[index % 3] as bigint,
        purchase_value_in_cents: 1_000 + index,
        created_at: new Date(Date.UTC(2025, 0, 1, 0, 144 * index)).toISOString(),
        order_number: `#${index}`,
        platform: index % 2 === 0 ? 'shopify' : 'bling',
        utm_source: index % 2 === 0 ? null : `source ${index % 7}`,
        coupons: index % 5 === 0 ? '[{"code": "VERÃO", "value": 1.50}]' : null,
      }),
    );
  }
  return ids;
}
