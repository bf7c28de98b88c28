import { existsSync } from 'node:fs';
import { describe, expect } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import {
  createBases,
  finishBase,
  openUnfinishedBase,
  resetBase,
} from '../../sync/files/base-file.ts';
import { createDelta, type FileContext, openDelta } from '../../sync/files/delta-file.ts';
import { isolatedTest } from '../support/fixtures.ts';

async function createBase(context: FileContext) {
  const base = await openUnfinishedBase(context);
  await resetBase(base);
  return base;
}

const it = isolatedTest
  .extend('instance', async ({ directory: spillDirectory }, { onCleanup }) => {
    const instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
    onCleanup(() => instance.closeSync());
    return instance;
  })
  .extend('contextOf', ({ instance, directory: dataDirectory }) => (organizationId: bigint) => {
    return { instance, bases: createBases(instance), dataDirectory, organizationId };
  })
  /** Creates the empty base and live delta of an organization. */
  .extend('create', ({ contextOf }) => async (organizationId: bigint) => {
    const context = contextOf(organizationId);
    const base = await finishBase(await createBase(context));
    const watermark = { source: '', fingerprint: '', token: '', snapshot: '1:1:', asOf: 1n };
    return createDelta(context, 'live', base, { organizationId, ...watermark });
  });

describe('the files of an organization', () => {
  it('are not removed if DuckDB cannot open them because they are open', async ({
    instance,
    contextOf,
    create,
  }) => {
    const file = await create(1n);
    const connection = await instance.connect();
    await file.close();
    await connection.run(`attach '${file.path}' as other_connection`);
    await expect(openDelta(contextOf(1n), 'live')).rejects.toThrow('Unique file handle conflict');
    expect(existsSync(file.path)).toBe(true);
    connection.closeSync();
  });

  it('include an unfinished base that is created again after its completion failed', async ({
    contextOf,
  }) => {
    const context = contextOf(1n);
    const base = await createBase(context);
    await base.connection.run(`drop table ${base.catalog}.base`);
    await expect(finishBase(base)).rejects.toThrow('base does not exist');
    await finishBase(await createBase(context));
    expect(existsSync(base.path)).toBe(false);
  });

  it('are opened, checkpointed and closed concurrently while those of 50 organizations are open', {
    tags: ['slow'],
  }, async ({ contextOf, create }) => {
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
