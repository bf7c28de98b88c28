import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { NoGenerationError } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createInstance } from '../../src/duckdb/connection.ts';
import { replaceFile } from '../../src/process/replace-file.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { quarterHourSql } from '../../src/purchase-store/format/quarter-hours.ts';
import { noRecords } from '../../sync/capture/changed-purchases.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test } from '../support/fixtures.ts';
import { purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { runProgram } from '../support/program.ts';
import { attachEmptyBase, publishFiles, publishTestTick } from '../support/store-files.ts';

// Until a file is detached, DuckDB keeps information on its deleted rows in memory: here 1.5 MB of
// each of the large files. The engine counts about 1 MB for each small log.
const memoryMiB = 24;
const large = Array.from({ length: 24 }, (_, index) => BigInt(index + 1));
const small = Array.from({ length: 2 * memoryMiB }, (_, index) => BigInt(index + 100));
const purchases = 122_880;
const records = 1_000;

const file = { scope: 'file' } as const;

const it = test
  /** A data folder with purchases of each organization: in a base, or in a log. */
  .extend('published', file, async ({ directory: spillDirectory }) => {
    const directory = join(spillDirectory, 'data');
    const instance = await createInstance({
      threads: 2,
      memoryLimit: '512MiB',
      spillDirectory,
      dataDirectory: spillDirectory,
    });
    const connection = await instance.connect();
    const original = join(spillDirectory, base);
    await writeBase(connection, original);
    for (const id of large) {
      const folder = organizationDirectory(directory, id);
      await mkdir(folder, { recursive: true });
      await copyFile(original, join(folder, base));
      publishFiles(directory, id, noRecords, { base, purchases });
    }
    const lines = Array.from({ length: records }, (_, index) =>
      upsertLine(purchaseRow({ id: BigInt(index + 1) })),
    );
    for (const id of small) publishFiles(directory, id, recordsOf(lines));
    publishTestTick(directory, 1);
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
    const { result } = await readPurchaseStats(boundedEngine, organization, {
      filters,
      groupLimit: 1,
    });
    return result.purchaseCount;
  });

const base = 'base-0.duckdb';

/** Writes a base of which one row in each vector is deleted. */
async function writeBase(connection: DuckDBConnection, path: string): Promise<void> {
  await attachEmptyBase(connection, path);
  await connection.run(`
    insert into base.purchase by name
    select n as id, n % 1000 as customer_id, n % 1000 as customer_key, 100 as purchase_value_in_cents,
      make_timestamp(1700000000000000 + n * 1000000) as created_at,
      ${quarterHourSql('epoch_us(created_at)')} as created_quarter_hour, created_at as updated_at,
      0 as previous_quarter_hour, 0 as previous_of_status_quarter_hour
    from range(1, ${purchases + 1}) as numbers(n)`);
  await connection.run('checkpoint base');
  await connection.run('delete from base.purchase where id % 2048 = 5');
  await connection.run('detach base');
}

const remaining = BigInt(purchases - purchases / 2_048);

describe('an engine with more organizations than memory', {
  tags: ['slow'],
}, () => {
  it('serves all of them one after the other, twice', async ({ count, errors }) => {
    for (const organization of [...large, ...large]) {
      expect(await count(organization)).toBe(remaining);
    }
    expect(errors).toEqual([]);
  });

  it.skipIf(!canListOpenFiles)(
    'keeps the files open that it used last',
    async ({ published, count, errors }) => {
      const purchases = join(published, 'purchases');
      const folderOf = (id: bigint) => organizationDirectory(published, id);
      const openFolders = () => openFilesUnder(purchases).map(dirname);
      for (const organization of small) expect(await count(organization)).toBe(BigInt(records));
      // After this query, the next file is the one that was not used for longest.
      const kept = small.find((id) => openFolders().includes(folderOf(id))) as bigint;
      await count(kept);
      const first = small[0] as bigint;
      await count(first);
      const used = [...small.filter((id) => id !== kept && id !== first), kept, first];
      const open = openFolders();
      expect(open.length).toBeGreaterThan(2);
      expect(open.length).toBeLessThan(small.length);
      expect(open).toEqual(used.slice(-open.length).map(folderOf).sort());
      expect(errors).toEqual([]);
    },
  );

  it('reads no files of an unknown layout version', async ({
    published: directory,
    boundedEngine: engine,
    count,
  }) => {
    const [organization] = small as [bigint];
    expect(await count(organization)).toBe(BigInt(records));
    const folder = organizationDirectory(directory, organization);
    const published = await readFile(currentFile(folder), 'utf8');
    const later = { ...JSON.parse(published), layoutVersion: layoutVersion + 1 };
    await replaceFile(currentFile(folder), JSON.stringify(later));
    try {
      expect(await engine.version(organization)).toBeNull();
      await expect(count(organization)).rejects.toBeInstanceOf(NoGenerationError);
    } finally {
      await replaceFile(currentFile(folder), published);
    }
    expect(await count(organization)).toBe(BigInt(records));
  });

  it('serves all of them concurrently', async ({ count, errors }) => {
    for (let round = 0; round < 15; round += 1) {
      const counts = await Promise.all(large.map(count));
      expect(counts).toEqual(large.map(() => remaining));
    }
    expect(errors).toEqual([]);
  });
});

describe('an engine with more organizations than files that it may open', {
  tags: ['slow'],
}, () => {
  it('closes the files that it did not use for longest', async ({ directory, onTestFinished }) => {
    const organizations = 150;
    for (let id = 1; id <= organizations; id += 1) {
      const lines = [upsertLine(purchaseRow({ id: BigInt(id) }))];
      publishFiles(directory, BigInt(id), recordsOf(lines));
    }
    publishTestTick(directory, 1);
    const args = [directory, String(organizations)];
    const program = runProgram('test/support/count-purchases.ts', args, {}, { maxOpenFiles: 120 });
    onTestFinished(() => void program.child.kill('SIGKILL'));
    expect(await program.exited(), program.output()).toBe(0);
    expect(program.stdout()).toBe(`${organizations} purchases\n`);
  });
});
