import { existsSync } from 'node:fs';
import type { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import {
  createBases,
  finishBase,
  openUnfinishedBase,
  resetBase,
} from '../../sync/files/base-file.ts';
import { createDelta, type FileContext, openDelta } from '../../sync/files/delta-file.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('the files that purchases are written to', { timeout: 60_000 }, () => {
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

  const contextOf = (organizationId: bigint) => ({
    instance,
    bases: createBases(instance),
    dataDirectory: directory.path,
    organizationId,
  });
  const createBase = async (context: FileContext) => {
    const base = await openUnfinishedBase(context);
    await resetBase(base);
    return base;
  };
  const create = async (organizationId: bigint) => {
    const context = contextOf(organizationId);
    const base = await finishBase(await createBase(context));
    const shown = { source: '', fingerprint: '', token: '', snapshot: '1:1:', asOf: 1n };
    return createDelta(context, 'live', base, { organizationId, ...shown });
  };

  it('keeps a file that is still open elsewhere', async () => {
    const file = await create(1n);
    const connection = await instance.connect();
    await file.close();
    await connection.run(`attach '${file.path}' as elsewhere`);
    await expect(openDelta(contextOf(1n), 'live')).rejects.toThrow('Unique file handle conflict');
    expect(existsSync(file.path)).toBe(true);
    connection.closeSync();
  });

  it('opens an unfinished base again that could not be completed', async () => {
    const context = contextOf(1n);
    const base = await createBase(context);
    await base.connection.run(`drop table ${base.catalog}.base`);
    await expect(finishBase(base)).rejects.toThrow('base does not exist');
    await finishBase(await createBase(context));
    expect(existsSync(base.path)).toBe(false);
  });

  it('closes, opens and checks files while many others are open', async () => {
    const others = [];
    for (let organization = 100n; organization < 150n; organization += 1n) {
      others.push(await create(organization));
    }
    const openAndClose = async (organization: bigint) => {
      await (await create(organization)).close();
      const context = contextOf(organization);
      for (let times = 0; times < 30; times += 1) {
        const file = await openDelta(context, 'live');
        await file?.connection.run(`checkpoint ${file.catalogs.delta}`);
        await file?.close();
      }
    };
    await expect(Promise.all([1n, 2n, 3n].map(openAndClose))).resolves.toHaveLength(3);
    for (const file of others) await file.close();
  });
});
