import { dirname, join } from 'node:path';
import sql from 'sql-template-tag';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createInstance, queryRows, quotePath } from '../../src/duckdb/connection.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { canTellOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

// Of each file that is open DuckDB keeps some hundred kilobytes until it is closed.

const maxIdleFiles = 3;

describe('a worker of more organizations than may stay open', { timeout: 60_000 }, () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: TestWorker;
  let organizations: bigint[];

  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    organizations = [];
    for (let count = 0; count < 8; count += 1) {
      organizations.push(await addOrganization(database.pool));
    }
    worker = await createTestWorker(database.pool, directory.path, { maxIdleFiles });
  });
  afterEach(async () => {
    await worker.close();
    await database.drop();
    await directory.remove();
  });

  const buy = async (organization: bigint) =>
    addPurchase(database.pool, organization, {
      customer_id: await addCustomer(database.pool, organization),
    });
  const folderOf = (organization: bigint) => organizationDirectory(directory.path, organization);
  const openFolders = () =>
    openFilesUnder(directory.path)
      .filter((path) => path.endsWith('live.duckdb'))
      .map(dirname);

  it('publishes them all, again and again', async () => {
    for (const purchases of [1, 2, 3]) {
      for (const organization of organizations) await buy(organization);
      await worker.syncAll();
      for (const organization of organizations) {
        expect(readPublished(folderOf(organization))?.purchases).toBe(purchases);
      }
      if (canTellOpenFiles) expect(openFolders()).toHaveLength(maxIdleFiles);
    }
  });

  it('leaves nothing in a file that would stay in memory: no row of it was deleted', async () => {
    const [organization] = organizations as [bigint];
    const spillDirectory = directory.path;
    const instance = await createInstance({ threads: 1, memoryLimit: '64MiB', spillDirectory });
    const connection = await instance.connect();
    for (const purchases of [1, 2, 3]) {
      await buy(organization);
      await worker.once([organization]);
      const folder = folderOf(organization);
      const file = join(folder, readPublished(folder)?.file ?? '');
      await connection.run(`attach ${quotePath(file)} as published${purchases} (read_only)`);
      const rows = await queryRows(
        connection,
        sql`select distinct count from pragma_storage_info(${`published${purchases}.watermark`})`,
      );
      expect(rows).toEqual([[1n]]);
    }
    connection.closeSync();
    instance.closeSync();
  });

  it.skipIf(!canTellOpenFiles)('keeps open those that it was at last', async () => {
    await worker.syncAll();
    const last = organizations.slice(2, 2 + maxIdleFiles);
    for (const organization of last) await worker.once([organization]);
    expect(openFolders()).toEqual(last.map(folderOf).sort());
  });
});
