import { openSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { type Table, tableFromIPC } from 'apache-arrow';
import sql, { raw } from 'sql-template-tag';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { maxTextBytes, trackingLabels } from '../../src/domain/purchase.ts';
import { queryRows } from '../../src/duckdb/connection.ts';
import { createExportWriter } from '../../src/exports/export-process.ts';
import type { ExportFormatName } from '../../src/http/formats/negotiation.ts';
import { attachEmptyStore, storeFiles } from '../support/store-files.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('an export of many labels of the greatest length', { timeout: 120_000 }, () => {
  // 59 MiB of labels and 23 MiB of coupons, for a DuckDB that may use 128.
  const count = 12_000;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  /** Ends in the purchase's number. */
  const labelOf = (label: string, number: number) =>
    `${label} ${number}`.padStart(maxTextBytes.label, 'x');

  beforeAll(async () => {
    directory = await temporaryDirectory();
    await mkdir(join(directory.path, 'spill'));
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    await attachEmptyStore(connection, directory.path);
    await connection.run('use base; insert into customer values (0, 1)');
    const keys = trackingLabels.map((label) => `n as ${label}_key`);
    for (const label of trackingLabels) {
      await connection.run(`
        insert into label_${label}
        select n, lpad('${label} ' || n, ${maxTextBytes.label}, 'x') from range(1, ${count + 1}) as numbers (n)`);
    }
    await connection.run(`
      insert into purchase by name
      select n as id, 1 as customer_id, 0 as customer_key, n as purchase_value_in_cents,
        make_timestamp(n) as created_at, 0 as created_quarter_hour, make_timestamp(n) as updated_at,
        '[{"code": "' || repeat('c', 2000) || n || '"}]' as coupons, ${keys.join(', ')}
      from range(1, ${count + 1}) as numbers (n)`);
    connection.closeSync();
    instance.closeSync();
  });
  afterAll(() => directory.remove());

  const exported = async (format: ExportFormatName): Promise<Buffer> => {
    const writeExport = createExportWriter({
      threads: 2,
      memoryLimit: '128MiB',
      dataDirectory: directory.path,
    });
    const parts: Buffer[] = [];
    const { signal } = new AbortController();
    const [base, delta] = Object.values(storeFiles).map((name) =>
      openSync(join(directory.path, name), 'r'),
    ) as [number, number];
    const source = { descriptors: { base, delta } };
    for await (const part of writeExport(source, {}, format, signal)) {
      parts.push(Buffer.from(part));
    }
    return Buffer.concat(parts);
  };
  /** Each purchase's value and labels, by value. */
  const expectAll = (rows: readonly (readonly unknown[])[]) => {
    expect(rows).toHaveLength(count);
    const byNumber = [...rows].sort((one, other) => Number(one[0]) - Number(other[0]));
    for (const [index, [number, ...labels]] of byNumber.entries()) {
      const expected = trackingLabels.map((label) => labelOf(label, index + 1));
      if (Number(number) !== index + 1 || labels.join() !== expected.join()) {
        expect([number, ...labels]).toEqual([index + 1, ...expected]);
      }
    }
  };
  const columns = ['purchase_value_in_cents', ...trackingLabels];

  it.each(['csv', 'parquet'] as const)('has all of them in %s', async (format) => {
    const file = join(directory.path, `export.${format}`);
    await writeFile(file, await exported(format));
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    const selected = columns.join(', ');
    expectAll(await queryRows(connection, sql`select ${raw(selected)} from ${raw(`'${file}'`)}`));
    connection.closeSync();
    instance.closeSync();
  });

  it('has all of them in NDJSON', async () => {
    const lines = (await exported('ndjson')).toString().trimEnd().split('\n');
    expectAll(lines.map((line) => columns.map((column) => JSON.parse(line)[column])));
  });

  it('has all of them in Arrow', async () => {
    const table: Table = tableFromIPC(await exported('arrow'));
    const vectors = columns.map((column) => table.getChild(column));
    expectAll(
      Array.from({ length: table.numRows }, (_, row) => vectors.map((each) => each?.get(row))),
    );
  });
});
