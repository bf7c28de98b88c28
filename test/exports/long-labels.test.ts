import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { maxTextBytes, trackingLabels } from '../../src/domain/purchase.ts';
import { createExportWriters } from '../../src/exports/export-process.ts';
import { previousQuarters } from '../../src/purchase-store/format/previous-purchases.ts';
import { purchaseTable } from '../../src/resources/purchases/purchase-table.ts';
import { fileReader, type ReadRow, readArrow } from '../http/formats/reading.ts';
import { test as it } from '../support/fixtures.ts';
import { attachEmptyBase } from '../support/store-files.ts';

describe('an export of many labels of the maximum length', () => {
  // 34 MiB of labels and 13 MiB of coupons, with a memory limit of 100 MiB.
  const count = 7_000;
  const base = 'base-0.duckdb';
  const log = 'log-0.tsv';

  it.beforeAll(async ({ directory }) => {
    mkdirSync(join(directory, 'spill'));
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    await attachEmptyBase(connection, join(directory, base));
    writeFileSync(join(directory, log), '');
    await connection.run('use base; insert into customer values (0, 1)');
    const keys = trackingLabels.map((label) => `n as ${label}_key`);
    const previous = Object.values(previousQuarters).map(({ name }) => `0 as ${name}`);
    for (const label of trackingLabels) {
      await connection.run(`
        insert into label_${label}
        select n, lpad('${label} ' || n, ${maxTextBytes.label}, 'x') from range(1, ${count + 1}) as numbers (n)`);
    }
    await connection.run(`
      insert into purchase by name
      select n as id, 1 as customer_id, 0 as customer_key, n as purchase_value_in_cents,
        make_timestamp(n) as created_at, 0 as created_quarter_hour, make_timestamp(n) as updated_at,
        ${previous.join(', ')},
        '[{"code": "' || repeat('c', 2000) || n || '"}]' as coupons, ${keys.join(', ')}
      from range(1, ${count + 1}) as numbers (n)`);
    connection.closeSync();
    instance.closeSync();
  });

  async function exported(format: 'arrow' | 'parquet', dataDirectory: string): Promise<Buffer> {
    const { writeExport } = createExportWriters({
      threads: 2,
      memoryLimit: '100MiB',
      dataDirectory,
    });
    const parts: Uint8Array[] = [];
    const open = (name: string) => openSync(join(dataDirectory, name), 'r');
    const descriptors = { base: open(base), log: open(log) };
    const files = { ...descriptors, part: { lines: 0, bytes: 0 }, asOf: 1n };
    const { signal } = new AbortController();
    for await (const part of writeExport({ files }, {}, { format }, signal)) {
      parts.push(Buffer.from(part));
    }
    Object.values(descriptors).forEach(closeSync);
    return Buffer.concat(parts);
  }

  function expectAll(rows: readonly ReadRow[]): void {
    const names = ['purchase_value_in_cents', ...trackingLabels];
    const positions = names.map((name) =>
      purchaseTable.columns.findIndex((one) => one.name === name),
    );
    const shown = rows.map((row) => positions.map((position) => row[position]));
    shown.sort(([one], [other]) => Number(one) - Number(other));
    const stored = Array.from({ length: count }, (_, index) => [
      `${index + 1}`,
      ...trackingLabels.map((label) => `${label} ${index + 1}`.padStart(maxTextBytes.label, 'x')),
    ]);
    // A failure prints one row instead of all.
    const differing = stored.findIndex((row, index) => row.join() !== shown[index]?.join());
    expect(shown[differing]).toEqual(stored[differing]);
    expect(shown).toHaveLength(count);
  }

  // Parquet is written from the lines of CSV.
  it('has all of them in Parquet', { tags: ['slow'] }, async ({ directory }) => {
    const files = await fileReader();
    expectAll((await files.readParquet(await exported('parquet', directory))).rows);
    await files.close();
  });

  it('has all of them in Arrow', { tags: ['slow'] }, async ({ directory }) => {
    expectAll(readArrow(await exported('arrow', directory)).rows);
  });
});
