import { link, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { purchaseColumns, purchaseLabels } from '../../../src/domain/purchase.ts';
import { queryRows, quotePath } from '../../../src/duckdb/connection.ts';
import { labelKey, labelTable, noLabel } from '../../../src/purchase-store/layout.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../../../src/purchase-store/published-generation.ts';
import { creationQuarter, quarterHourSql } from '../../../src/purchase-store/quarter-hours.ts';
import type { Row } from './history.ts';

export type Generation = {
  readonly published: PublishedGeneration;
  readonly rows: readonly Row[];
  /** What is wrong with the file by itself. */
  readonly faults: readonly string[];
};

/** Opens generations as a reader would, under names of its own: they may be removed meanwhile. */
export type GenerationReader = {
  /** What is published; null where nothing is. */
  read(organizationId: bigint): Promise<Generation | null>;
};

export function createGenerationReader(
  instance: DuckDBInstance,
  dataDirectory: string,
  /** On the data folder's disk. */
  ownDirectory: string,
): GenerationReader {
  let count = 0;
  return {
    async read(organizationId) {
      await mkdir(ownDirectory, { recursive: true });
      const directory = organizationDirectory(dataDirectory, organizationId);
      for (;;) {
        const published = readPublished(directory);
        if (published === null) return null;
        count += 1;
        const own = join(ownDirectory, `${count}.duckdb`);
        try {
          await link(join(directory, published.file), own);
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          // Replaced in this very moment, or the organization is gone: look again.
          if (code === 'ENOENT' && readPublished(directory)?.file !== published.file) continue;
          throw error;
        }
        try {
          return await open(instance, own, `generation_${count}`, published);
        } finally {
          await rm(own);
        }
      }
    },
  };
}

async function open(
  instance: DuckDBInstance,
  path: string,
  catalog: string,
  published: PublishedGeneration,
): Promise<Generation> {
  const connection = await instance.connect();
  try {
    await connection.run(`attach ${quotePath(path)} as ${catalog} (read_only)`);
    const rows = (await queryRows(
      connection,
      sql`select ${raw(selectList)} from ${raw(source(catalog))}`,
    )) as Row[];
    return { published, rows, faults: await findFaults(connection, catalog, published, rows) };
  } finally {
    await connection.run(`detach database if exists ${catalog}`);
    connection.closeSync();
  }
}

const selectList = purchaseColumns
  .map(({ name, kind }) => {
    if (kind === 'label') return `${labelTable(name)}.value`;
    return kind === 'instant' ? `epoch_us(purchase.${name})` : `purchase.${name}`;
  })
  .join(', ');

const source = (catalog: string): string =>
  [
    `${catalog}.purchase`,
    `left join ${catalog}.customer on customer.key = customer_key`,
    ...purchaseLabels.map(
      (label) =>
        `left join ${catalog}.${labelTable(label)} on ${labelTable(label)}.key = ${labelKey(label)}`,
    ),
  ].join('\n');

async function findFaults(
  connection: DuckDBConnection,
  catalog: string,
  { purchases, snapshot }: PublishedGeneration,
  rows: readonly Row[],
): Promise<string[]> {
  const faults: string[] = [];
  const count = async (from: string) =>
    Number((await queryRows(connection, sql`select count(*) from ${raw(from)}`))[0]?.[0]);
  const expectNone = async (what: string, from: string) => {
    const found = await count(from);
    if (found > 0) faults.push(`${found} ${what}`);
  };
  if (rows.length !== purchases) faults.push(`${rows.length} rows, and not ${purchases}`);
  const [watermark] = await queryRows(
    connection,
    sql`select snapshot from ${raw(`${catalog}.watermark`)}`,
  );
  if (watermark?.[0] !== snapshot) faults.push(`its watermark is ${watermark?.[0]}`);
  await expectNone(
    'purchases with another customer’s key',
    `${source(catalog)} where customer.id is distinct from purchase.customer_id`,
  );
  await expectNone(
    'purchases counted for another quarter of an hour',
    `${catalog}.purchase where ${creationQuarter.name} <> ${quarterHourSql('epoch_us(created_at)')}`,
  );
  const dictionaries = [
    ['customer', 'id'],
    ...purchaseLabels.map((label) => [labelTable(label), 'value']),
  ];
  for (const [table, value] of dictionaries) {
    for (const column of ['key', value]) {
      await expectNone(
        `times the same ${column} in ${table}`,
        `(select 1 from ${catalog}.${table} group by ${column} having count(*) > 1)`,
      );
    }
  }
  for (const label of purchaseLabels) {
    await expectNone(
      `purchases whose ${label} is in no dictionary`,
      `${source(catalog)} where ${labelKey(label)} <> ${noLabel} and ${labelTable(label)}.key is null`,
    );
  }
  return faults;
}

/** How two sets of purchases differ, in a few words; null where they are the same. */
export function difference(found: readonly Row[], expected: readonly Row[]): string | null {
  const told = (rows: readonly Row[]) =>
    new Map(rows.map((row) => [row[0], row.map((value) => String(value)).join(' | ')]));
  const [one, other] = [told(found), told(expected)];
  const differences = [
    ...[...one].flatMap(([id, row]) =>
      other.get(id) === row
        ? []
        : [`found    ${row}\nexpected ${other.get(id) ?? 'no such purchase'}`],
    ),
    ...[...other].flatMap(([id, row]) => (one.has(id) ? [] : [`missing  ${row}`])),
  ];
  if (found.length !== one.size) differences.push(`${found.length - one.size} rows more than ids`);
  if (differences.length === 0) return null;
  return [`${differences.length} differences:`, ...differences.slice(0, 5)].join('\n');
}
