import { cpSync, rmSync } from 'node:fs';
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
import { openPublishedFiles } from '../../sync/verification/published-file.ts';
import {
  type Verification,
  type VerifyOptions,
  verifyOrganization,
} from '../../sync/verification/verify.ts';
import { test } from './fixtures.ts';
import type { TestDatabase } from './postgres.ts';
import { addCustomer, addPurchase } from './shop.ts';
import { createTestWorker, type TestWorker } from './sync.ts';

/** The published purchases of an organization, which a test damages and verifies. */
export type PublishedShop = {
  readonly database: TestDatabase;
  readonly directory: string;
  readonly organization: bigint;
  /** The organization's folder. */
  readonly folder: string;
  /** Brings organizations up to date, and publishes. The default is this organization. */
  sync(organizations?: readonly bigint[]): Promise<void>;
  /** Follows changes until the signal is aborted. */
  follow(signal: AbortSignal, onReport?: (report: OrganizationReport) => void): Promise<void>;
  /** The published base. */
  basePath(): string;
  /** The published delta. */
  deltaPath(): string;
  /** The delta of the worker. */
  livePath(): string;
  /** Runs SQL on the published base, or on another file, as DuckDB's current database. */
  damage(statement: string, path?: string): Promise<void>;
  verify(options?: Partial<VerifyOptions>): Promise<Verification>;
  /** Changes the worker's delta within a snapshot of Postgres, and publishes it. */
  onLiveFile<Result>(
    work: (live: DeltaFile, source: pg.ClientBase) => Promise<Result>,
  ): Promise<Result>;
};

/** `published` is a new organization in the database and the folder of the file. */
export const verifiedTest = test.extend('published', ({ database, directory, newShop }) =>
  openPublishedShop(database, directory, newShop.organizationId),
);

/** Copies the organization's folder. The returned function restores it. */
export function keepFolder({ directory, folder }: PublishedShop): () => void {
  const copy = join(directory, 'undamaged');
  cpSync(folder, copy, { recursive: true });
  return () => {
    rmSync(folder, { recursive: true });
    cpSync(copy, folder, { recursive: true });
  };
}

export function openPublishedShop(
  database: TestDatabase,
  directory: string,
  organization: bigint,
): PublishedShop {
  const folder = organizationDirectory(directory, organization);
  const duckdb = {
    threads: 2,
    memoryLimit: '256MiB',
    spillDirectory: join(directory, 'spill', 'test'),
  };

  const withWorker = async (
    work: (worker: TestWorker) => Promise<void>,
    onReport: (report: OrganizationReport) => void = () => {},
  ) => {
    const worker = await createTestWorker(database.pool, directory, {
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
    directory,
    organization,
    folder,
    sync: (organizations = [organization]) => withWorker((worker) => worker.once(organizations)),
    follow: (signal, onReport) => withWorker((worker) => worker.run(signal), onReport),
    basePath,
    deltaPath: () => join(folder, readPublished(folder)?.file ?? 'nothing'),
    livePath: () => deltaPath(folder, 'live'),
    damage: (statement, path = basePath()) => runOnFile(path, statement),
    verify: (options = {}) =>
      verifyOrganization({
        organizationId: organization,
        database: database.pool,
        open: (id) => openPublishedFiles(directory, id, duckdb),
        signal: new AbortController().signal,
        maxWaitMs: 0,
        ...options,
      }),
    async onLiveFile(work) {
      const instance = await createInstance(duckdb);
      const bases = createBases(instance);
      const context = { instance, bases, dataDirectory: directory, organizationId: organization };
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
  };
}

/** Adds purchases, ten a day, each with its own texts. Returns their ids, oldest first. */
export async function addPurchases(
  { database, organization }: Pick<PublishedShop, 'database' | 'organization'>,
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
