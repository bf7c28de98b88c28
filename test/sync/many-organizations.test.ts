import { dirname, join } from 'node:path';
import sql from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { createInstance, queryRows, quotePath } from '../../src/duckdb/connection.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { test } from '../support/fixtures.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

// DuckDB keeps some hundred kilobytes for each open file.
const maxIdleFiles = 3;

const it = test
  .extend('boundedWorker', ({ openWorker }) => openWorker({ maxIdleFiles }))
  .extend('buy', ({ database: { pool } }) => async (organizationId: bigint) => {
    const customer_id = await addCustomer(pool, organizationId);
    await addPurchase(pool, organizationId, { customer_id });
  })
  .extend('published', ({ directory }) => (organizationId: bigint) => {
    return readPublished(organizationDirectory(directory, organizationId));
  });

describe('a worker of more organizations than it keeps files open', () => {
  it('publishes all organizations repeatedly, and keeps the files open that it used last', {
    tags: ['slow'],
  }, async ({ database, directory, boundedWorker: worker, buy, published }) => {
    const organizations: bigint[] = [];
    for (let count = 0; count < 8; count += 1) {
      organizations.push(await addOrganization(database.pool));
    }
    const openFolders = () =>
      openFilesUnder(directory)
        .filter((path) => path.endsWith('live.duckdb'))
        .map(dirname);
    for (const purchases of [1, 2, 3]) {
      for (const organization of organizations) await buy(organization);
      await worker.once(organizations);
      for (const organization of organizations) {
        expect(published(organization)?.purchases).toBe(purchases);
      }
      if (canListOpenFiles) expect(openFolders()).toHaveLength(maxIdleFiles);
    }
    const last = organizations.slice(2, 2 + maxIdleFiles);
    for (const organization of last) await worker.once([organization]);
    if (!canListOpenFiles) return;
    expect(openFolders()).toEqual(last.map((id) => organizationDirectory(directory, id)).sort());
  });

  // DuckDB keeps information on the deleted rows of an open file in memory.
  it('publishes files without deleted rows', async ({
    directory,
    newShop: { organizationId },
    boundedWorker: worker,
    buy,
    published,
  }) => {
    const spillDirectory = directory;
    const instance = await createInstance({ threads: 1, memoryLimit: '64MiB', spillDirectory });
    const connection = await instance.connect();
    for (const purchases of [1, 2, 3]) {
      await buy(organizationId);
      await worker.once([organizationId]);
      const folder = organizationDirectory(directory, organizationId);
      const file = join(folder, published(organizationId)?.file ?? '');
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
});
