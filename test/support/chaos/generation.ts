import { link, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql, { join as joinSql, raw, type Sql } from 'sql-template-tag';
import { purchaseColumns, purchaseLabels } from '../../../src/domain/purchase.ts';
import { queryRows, quotePath } from '../../../src/duckdb/connection.ts';
import {
  dictionaries,
  labelKey,
  labelTable,
  noLabel,
  supersededColumns,
} from '../../../src/purchase-store/layout.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../../../src/purchase-store/published-generation.ts';
import { creationQuarter, quarterHourSql } from '../../../src/purchase-store/quarter-hours.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../../src/purchase-store/relations.ts';
import type { Row } from './history.ts';

export type Generation = {
  readonly published: PublishedGeneration;
  readonly rows: readonly Row[];
  /** Violated invariants of the files. */
  readonly errors: readonly string[];
};

/** Reads generations through hard links, because the worker may remove their files meanwhile. */
export type GenerationReader = {
  /** The published generation, or null. */
  read(organizationId: bigint): Promise<Generation | null>;
};

export function createGenerationReader(
  instance: DuckDBInstance,
  dataDirectory: string,
  /** On the disk of the data folder. */
  linkDirectory: string,
): GenerationReader {
  let count = 0;
  return {
    async read(organizationId) {
      await mkdir(linkDirectory, { recursive: true });
      const directory = organizationDirectory(dataDirectory, organizationId);
      for (;;) {
        const published = readPublished(directory);
        if (published === null) return null;
        count += 1;
        const names = { base: published.base, delta: published.file };
        const links = {
          base: join(linkDirectory, `${count}-base.duckdb`),
          delta: join(linkDirectory, `${count}-delta.duckdb`),
        };
        try {
          await link(join(directory, names.base), links.base);
          await link(join(directory, names.delta), links.delta);
        } catch (error) {
          await rm(links.base, { force: true });
          const { code } = error as NodeJS.ErrnoException;
          // Another generation was published meanwhile, or the organization was deleted.
          if (code === 'ENOENT' && readPublished(directory)?.file !== published.file) continue;
          throw error;
        }
        try {
          return await open(instance, links, count, published);
        } finally {
          await rm(links.base);
          await rm(links.delta);
        }
      }
    },
  };
}

async function open(
  instance: DuckDBInstance,
  paths: StoreCatalogs,
  number: number,
  published: PublishedGeneration,
): Promise<Generation> {
  const connection = await instance.connect();
  const catalogs = { base: `base_${number}`, delta: `delta_${number}` };
  try {
    await connection.run(`attach ${quotePath(paths.base)} as ${catalogs.base} (read_only)`);
    await connection.run(`attach ${quotePath(paths.delta)} as ${catalogs.delta} (read_only)`);
    const rows = (await queryRows(
      connection,
      sql`select ${raw(selectList)} from ${source(catalogs)}`,
    )) as Row[];
    return {
      published,
      rows,
      errors: await findIntegrityErrors(connection, catalogs, published, rows),
    };
  } finally {
    for (const catalog of Object.values(catalogs)) {
      await connection.run(`detach database if exists ${catalog}`);
    }
    connection.closeSync();
  }
}

const selectList = purchaseColumns
  .map(({ name, kind }) => {
    if (kind === 'label') return `${labelTable(name)}.value`;
    return kind === 'instant' ? `epoch_us(purchase.${name})` : `purchase.${name}`;
  })
  .join(', ');

const source = (catalogs: StoreCatalogs): Sql =>
  joinSql(
    [
      sql`${currentPurchases(catalogs)} as purchase`,
      ...dictionaries.map((dictionary) => {
        const [table, key] = [raw(dictionary.table), raw(dictionary.key)];
        return sql`left join ${dictionaryEntries(catalogs, dictionary)} as ${table} on ${table}.key = purchase.${key}`;
      }),
    ],
    ' ',
  );

async function findIntegrityErrors(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  { purchases, snapshot }: PublishedGeneration,
  rows: readonly Row[],
): Promise<string[]> {
  const errors: string[] = [];
  const count = async (from: Sql) =>
    Number((await queryRows(connection, sql`select count(*) from ${from}`))[0]?.[0]);
  const expectNone = async (what: string, from: Sql) => {
    const found = await count(from);
    if (found > 0) errors.push(`${found} ${what}`);
  };
  if (rows.length !== purchases) errors.push(`${rows.length} rows instead of ${purchases}`);
  const [watermark] = await queryRows(
    connection,
    sql`select snapshot from ${raw(`${catalogs.delta}.watermark`)}`,
  );
  if (watermark?.[0] !== snapshot) errors.push(`its watermark is ${watermark?.[0]}`);
  await expectNone(
    'purchases with the key of another customer',
    sql`${source(catalogs)} where customer.id is distinct from purchase.customer_id`,
  );
  await expectNone(
    'purchases with a wrong quarter of an hour',
    sql`${currentPurchases(catalogs)} where ${raw(creationQuarter.name)} <> ${raw(quarterHourSql('epoch_us(created_at)'))}`,
  );
  for (const dictionary of dictionaries) {
    for (const column of ['key', dictionary.value]) {
      await expectNone(
        `values of ${column} in ${dictionary.table} that are not unique`,
        sql`(select 1 from ${dictionaryEntries(catalogs, dictionary)} group by ${raw(column)} having count(*) > 1)`,
      );
    }
  }
  const columns = raw(supersededColumns);
  const superseded = sql`select ${columns} from ${raw(catalogs.delta)}.change where sign < 0`;
  const original = sql`
    select ${columns} from ${raw(catalogs.base)}.purchase
    semi join (${superseded}) as superseded using (id)`;
  for (const [one, other] of [
    [superseded, original],
    [original, superseded],
  ] as const) {
    await expectNone(
      'rows of the base and superseded rows that differ',
      sql`(${one} except all ${other})`,
    );
  }
  for (const label of purchaseLabels) {
    await expectNone(
      `purchases whose ${label} is in no dictionary`,
      sql`${source(catalogs)} where ${raw(labelKey(label))} <> ${raw(String(noLabel))}
        and ${raw(labelTable(label))}.key is null`,
    );
  }
  return errors;
}

/** The first differences between two sets of purchases, or null. */
export function difference(found: readonly Row[], expected: readonly Row[]): string | null {
  const textById = (rows: readonly Row[]) =>
    new Map(rows.map((row) => [row[0], row.map((value) => String(value)).join(' | ')]));
  const [one, other] = [textById(found), textById(expected)];
  const differences = [
    ...[...one].flatMap(([id, row]) =>
      other.get(id) === row
        ? []
        : [`found    ${row}\nexpected ${other.get(id) ?? 'no such purchase'}`],
    ),
    ...[...other].flatMap(([id, row]) => (one.has(id) ? [] : [`missing  ${row}`])),
  ];
  if (found.length !== one.size)
    differences.push(`${found.length - one.size} rows with the id of another row`);
  if (differences.length === 0) return null;
  return [`${differences.length} differences:`, ...differences.slice(0, 5)].join('\n');
}
