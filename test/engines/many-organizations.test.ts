import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import {
  currentFile,
  organizationDirectory,
  serializePublished,
} from '../../src/purchase-store/published-generation.ts';
import { quarterHourSql } from '../../src/purchase-store/quarter-hours.ts';
import { replaceFile } from '../../src/replace-file.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test } from '../support/fixtures.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { attachEmptyStore, storeFiles } from '../support/store-files.ts';

// Until a file is detached, DuckDB keeps information on its deleted rows in memory: here 1.5 MB of
// each of the large files. The engine may keep one file open for each MiB.
const memoryMiB = 24;
const large = Array.from({ length: 24 }, (_, index) => BigInt(index + 1));
const small = Array.from({ length: 2 * memoryMiB }, (_, index) => BigInt(index + 100));
const purchases = 122_880;

const file = { scope: 'file' } as const;

const it = test
  /** A data folder with a generation of each organization. */
  .extend('published', file, async ({ directory: spillDirectory }) => {
    const directory = join(spillDirectory, 'data');
    const instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
    const connection = await instance.connect();
    const originals = [
      ['large', purchases, large],
      ['small', 2_048, small],
    ] as const;
    for (const [name, count, organizations] of originals) {
      const original = join(spillDirectory, name);
      await writeOriginal(connection, original, count);
      for (const id of organizations) await publishCopy(connection, original, directory, id);
    }
    connection.closeSync();
    instance.closeSync();
    return directory;
  })
  /** The errors that the engine reports. */
  .extend('errors', file, [] as unknown[])
  .extend('boundedEngine', file, async ({ published, errors }, { onCleanup }) => {
    const engine = await createTestDuckDBEngine(published, {
      memoryLimit: `${memoryMiB}MiB`,
      onError: (_organization, error) => errors.push(error),
    });
    onCleanup(engine.close);
    return engine;
  })
  /** Counts purchases with a filter, which requires a scan. */
  .extend('count', ({ boundedEngine }) => async (organization: bigint) => {
    const filters = { minValueInCents: 1n };
    const { result } = await boundedEngine.stats(organization, { filters, groupLimit: 1 });
    return result.purchaseCount;
  });

/** Writes files of which one row in each vector is deleted. */
async function writeOriginal(
  connection: DuckDBConnection,
  path: string,
  count: number,
): Promise<void> {
  await mkdir(path);
  await attachEmptyStore(connection, path);
  await connection.run(`
    insert into base.purchase by name
    select n as id, n % 1000 as customer_id, n % 1000 as customer_key, 100 as purchase_value_in_cents,
      make_timestamp(1700000000000000 + n * 1000000) as created_at,
      ${quarterHourSql('epoch_us(created_at)')} as created_quarter_hour, created_at as updated_at
    from range(1, ${count + 1}) as numbers(n)`);
  await connection.run('checkpoint base');
  await connection.run('delete from base.purchase where id % 2048 = 5');
  await connection.run('detach base; detach delta');
}

async function publishCopy(
  connection: DuckDBConnection,
  original: string,
  directory: string,
  organization: bigint,
): Promise<void> {
  const folder = organizationDirectory(directory, organization);
  const { base, delta: file } = storeFiles;
  await mkdir(folder, { recursive: true });
  for (const name of [base, file]) await copyFile(join(original, name), join(folder, name));
  await connection.run(`attach '${join(folder, file)}' as file`);
  await connection.run(`update file.watermark set organization_id = ${organization}`);
  await connection.run('detach file');
  const origin = { source: '', fingerprint: '', token: '' };
  const published = { file, base, ...origin, snapshot: '1:1:', asOf: 1n, purchases, bytes: 1 };
  await writeFile(currentFile(folder), serializePublished({ layoutVersion, ...published }));
}

const remaining = BigInt(purchases - purchases / 2_048);

describe('an engine with more organizations than memory', { timeout: 60_000 }, () => {
  it('serves all of them one after the other, twice', { tags: ['slow'] }, async ({
    count,
    errors,
  }) => {
    for (const organization of [...large, ...large]) {
      expect(await count(organization)).toBe(remaining);
    }
    expect(errors).toEqual([]);
  });

  it.skipIf(!canListOpenFiles)(
    'keeps the files open that it used last',
    { tags: ['slow'] },
    async ({ published, count, errors }) => {
      for (const organization of small) expect(await count(organization)).toBe(2_047n);
      // After this query, the next file is the one that was not used for longest.
      const [kept, ...others] = small.slice(-memoryMiB) as [bigint, ...bigint[]];
      await count(kept);
      const first = small[0] as bigint;
      await count(first);
      const last = [kept, first, ...others.slice(1)];
      const files = openFilesUnder(published).filter((path) => path.endsWith('.duckdb'));
      const folders = last.map((id) => organizationDirectory(published, id));
      expect([...new Set(files.map(dirname))]).toEqual(folders.sort());
      expect(errors).toEqual([]);
    },
  );

  it('serves the open generation if the next generation has an unknown layout version', {
    tags: ['slow'],
  }, async ({ published: directory, boundedEngine: engine, count }) => {
    const [organization] = small as [bigint];
    expect(await count(organization)).toBe(2_047n);
    const folder = organizationDirectory(directory, organization);
    const published = await readFile(currentFile(folder), 'utf8');
    const later = { ...JSON.parse(published), layoutVersion: layoutVersion + 1 };
    await replaceFile(currentFile(folder), JSON.stringify(later));
    try {
      // This call reads CURRENT.
      await engine.waitUntilFresh(organization, 0n, AbortSignal.timeout(10_000));
      for (const id of small) await count(id);
      expect(await count(organization)).toBe(2_047n);
    } finally {
      await replaceFile(currentFile(folder), published);
      await engine.waitUntilFresh(organization, 0n, AbortSignal.timeout(10_000));
    }
  });

  it('serves all of them concurrently', { tags: ['slow'] }, async ({ count, errors }) => {
    for (let round = 0; round < 15; round += 1) {
      const counts = await Promise.all(large.map(count));
      expect(counts).toEqual(large.map(() => remaining));
    }
    expect(errors).toEqual([]);
  });
});
