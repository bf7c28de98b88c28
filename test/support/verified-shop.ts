import { cpSync, rmSync } from 'node:fs';
import { copyFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { createInstance, quotePath } from '../../src/duckdb/connection.ts';
import {
  type Current,
  organizationDirectory,
  readCurrent,
} from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { appendBatches, recoverLog } from '../../src/purchase-store/format/log.ts';
import { newestTick, readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { openPublishedFiles } from '../../sync/verification/published-file.ts';
import {
  type Verification,
  type VerifyOptions,
  verifyOrganization,
} from '../../sync/verification/verify.ts';
import { test } from './fixtures.ts';
import type { TestDatabase } from './postgres.ts';
import { addCustomer, addPurchase } from './shop.ts';
import {
  createTestWorker,
  duckdbOptions,
  type TestWorker,
  type TestWorkerOptions,
} from './sync.ts';

/**
 * `published` is a new organization in the database and the folder of the file. It has a base.
 * `publishedInLog` is the same organization if it has none, because its purchases are few.
 */
export const verifiedTest = test
  .extend('published', ({ database, directory, newShop }) =>
    openPublishedShop(database, directory, newShop.organizationId),
  )
  .extend('publishedInLog', ({ database, directory, newShop }) =>
    openPublishedShop(database, directory, newShop.organizationId, {}),
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

/** The published purchases of an organization, which a test damages and verifies. */
export type PublishedShop = ReturnType<typeof openPublishedShop>;

export function openPublishedShop(
  database: TestDatabase,
  directory: string,
  organization: bigint,
  workerOptions: TestWorkerOptions = { maxPurchasesWithoutBase: 0 },
) {
  const folder = organizationDirectory(directory, organization);
  const duckdb = { ...duckdbOptions(directory, 'verified'), memoryLimit: '256MiB' };

  /** Runs `work` with a worker. */
  const withWorker = async <Result>(
    work: (worker: TestWorker) => Promise<Result>,
    options: TestWorkerOptions = {},
  ): Promise<Result> => {
    const all = { ...workerOptions, ...options };
    const worker = await createTestWorker(database.pool, directory, all);
    return work(worker).finally(() => worker.close());
  };
  /** The content of CURRENT. */
  const current = (): Current => {
    const content = readCurrent(folder, layoutVersion);
    if (content === null) throw new Error('nothing is published');
    return content;
  };
  const basePath = () => {
    const { base } = current();
    if (base === null) throw new Error('there is no base');
    return join(folder, base);
  };
  const logPath = () => join(folder, current().log);

  return {
    database,
    directory,
    organization,
    folder,
    /** Publishes organizations. The default is this organization. */
    sync: (organizations = [organization]) => withWorker((worker) => worker.once(organizations)),
    /** Follows changes until the signal is aborted. */
    follow: (signal: AbortSignal) => withWorker((worker) => worker.run(signal)),
    withWorker,
    current,
    basePath,
    logPath,
    /** Runs SQL on the published base, or another one, as DuckDB's current database. */
    async damage(statement: string, path = basePath()) {
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
    },
    /** Appends records to the log, as lines without a line break. Their batch is valid. */
    appendToLog(...records: readonly string[]) {
      const tick = newestTick(readTicks(directory), organization)?.tick ?? 0;
      const lines = Buffer.from(records.map((record) => `${record}\n`).join(''));
      const end = recoverLog(logPath(), tick, 0);
      appendBatches(logPath(), end, { tick, lines });
    },
    verify: (options: Partial<VerifyOptions> = {}): Promise<Verification> =>
      verifyOrganization({
        organizationId: organization,
        database: database.pool,
        open: (id) => openPublishedFiles(directory, id, duckdb),
        signal: new AbortController().signal,
        maxWaitMs: 0,
        ...options,
      }),
  };
}

/** Adds purchases, ten a day, each with its own texts. Returns their ids, oldest first. */
export async function addVariedPurchases(
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
