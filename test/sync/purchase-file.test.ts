import { existsSync } from 'node:fs';
import type { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { closePurchaseFile, openPurchaseFile } from '../../sync/files/purchase-file.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('a file that purchases are written to', { timeout: 60_000 }, () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let instance: DuckDBInstance;

  beforeEach(async () => {
    directory = await temporaryDirectory();
    const spillDirectory = directory.path;
    instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
  });
  afterEach(async () => {
    instance.closeSync();
    await directory.remove();
  });

  const open = (organization: bigint) =>
    openPurchaseFile(instance, directory.path, organization, 'live');

  it('is not made anew where it is still open elsewhere', async () => {
    const file = await open(1n);
    const connection = await instance.connect();
    await file.connection.run(`detach ${file.catalog}`);
    await connection.run(`attach '${file.path}' as elsewhere`);
    await expect(open(1n)).rejects.toThrow('Unique file handle conflict');
    expect(existsSync(file.path)).toBe(true);
    connection.closeSync();
    file.connection.closeSync();
  });

  it('is closed, opened and checked while others are, among many that are open', async () => {
    const others = [];
    for (let organization = 100n; organization < 200n; organization += 1n) {
      others.push(await open(organization));
    }
    const openAndClose = async (organization: bigint) => {
      for (let times = 0; times < 30; times += 1) {
        const file = await open(organization);
        await file.connection.run(`checkpoint ${file.catalog}`);
        await closePurchaseFile(file);
      }
    };
    await expect(Promise.all([1n, 2n, 3n].map(openAndClose))).resolves.toHaveLength(3);
    for (const file of others) await closePurchaseFile(file);
  });
});
