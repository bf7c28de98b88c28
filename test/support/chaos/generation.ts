import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql, { join as joinSql, raw, type Sql } from 'sql-template-tag';
import { purchaseColumns, purchaseLabels } from '../../../src/domain/purchase.ts';
import { queryRows } from '../../../src/duckdb/connection.ts';
import {
  type Current,
  organizationDirectory,
  readCurrent,
} from '../../../src/purchase-store/format/current.ts';
import {
  dictionaries,
  labelKey,
  labelTable,
  layoutVersion,
  noLabel,
  supersededColumns,
} from '../../../src/purchase-store/format/layout.ts';
import {
  creationQuarter,
  quarterHourSql,
} from '../../../src/purchase-store/format/quarter-hours.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../../src/purchase-store/format/relations.ts';
import { createBases, type OpenStore, openStore } from '../../../src/purchase-store/open-store.ts';
import { organizationWatermark } from '../../../src/purchase-store/ticks/published.ts';
import {
  newestTick,
  readTicks,
  type TickWatermark,
} from '../../../src/purchase-store/ticks/published-tick.ts';
import type { Row } from './history.ts';

/** What readers see of an organization: its files up to a published tick. */
export type Published = {
  readonly current: Current;
  /** The last published tick; 0 if there is none. */
  readonly tick: number;
  readonly shown: TickWatermark;
  /** The snapshot of the tick. Exceptions show another one. */
  readonly tickSnapshot: string | null;
  /** The identity of the tick's database; null without a tick. */
  readonly database: string | null;
};

/** Null if nothing is published. */
export function readPublished(dataDirectory: string, organizationId: bigint): Published | null {
  // Before CURRENT and the log, which then have all that the tick has published.
  const tick = newestTick(readTicks(dataDirectory), organizationId);
  const current = readCurrent(organizationDirectory(dataDirectory, organizationId), layoutVersion);
  if (current === null) return null;
  const shown = organizationWatermark(organizationId, current, tick);
  return {
    current,
    tick: tick?.tick ?? 0,
    shown,
    tickSnapshot: tick?.snapshot ?? null,
    database: tick?.database ?? null,
  };
}

/** Without changes, ticks show later instants of the same snapshot. */
export const generationOf = ({ current, shown }: Published): string =>
  `${current.log} ${shown.snapshot}`;

export type Generation = Published & {
  /** The log and its part that was read. No other content has this name. */
  readonly name: string;
  readonly rows: readonly Row[];
  /** Violated invariants of the files. */
  readonly errors: readonly string[];
};

/** One read at a time. */
export type GenerationReader = {
  /** What is published, or null. */
  read(organizationId: bigint): Promise<Generation | null>;
  close(): Promise<void>;
};

/**
 * Reads half of the generations from new deltas, which replay the whole log, and half from open ones,
 * to which the batches since the last read are applied.
 */
export function createGenerationReader(
  instance: DuckDBInstance,
  dataDirectory: string,
): GenerationReader {
  const bases = createBases(instance, () => null);
  const opened = new Map<bigint, OpenStore<null>>();
  let connection: DuckDBConnection | null = null;
  let count = 0;

  const connect = async (): Promise<DuckDBConnection> => {
    connection ??= await instance.connect();
    return connection;
  };
  const closeOne = async (organizationId: bigint): Promise<void> => {
    const store = opened.get(organizationId);
    opened.delete(organizationId);
    await store?.close(await connect());
  };
  const open = async (
    organizationId: bigint,
    { current, tick }: Published,
  ): Promise<OpenStore<null>> => {
    count += 1;
    const known = opened.get(organizationId);
    if (known?.current.log !== current.log || count % 2 === 0) {
      await closeOne(organizationId);
      const directory = organizationDirectory(dataDirectory, organizationId);
      const files = { published: tick, catalog: `delta_${count}` };
      opened.set(
        organizationId,
        await openStore(await connect(), bases, directory, current, files),
      );
    }
    const store = opened.get(organizationId) as OpenStore<null>;
    const pending = store.findPending(tick);
    if (pending !== null) await store.apply(await connect(), pending);
    return store;
  };

  return {
    async read(organizationId) {
      for (;;) {
        const published = readPublished(dataDirectory, organizationId);
        if (published === null) return null;
        try {
          const store = await open(organizationId, published);
          return { ...published, ...(await readStore(await connect(), store)) };
        } catch (error) {
          await closeOne(organizationId).catch(() => {});
          // Other files were published meanwhile, or the organization was deleted.
          const now = readPublished(dataDirectory, organizationId);
          if (now?.current.log === published.current.log) throw error;
        }
      }
    },
    async close() {
      for (const id of [...opened.keys()]) await closeOne(id);
      connection?.closeSync();
    },
  };
}

async function readStore(
  connection: DuckDBConnection,
  store: OpenStore<null>,
): Promise<Pick<Generation, 'name' | 'rows' | 'errors'>> {
  const rows = (await queryRows(
    connection,
    sql`select ${raw(selectList)} from ${source(store.catalogs)}`,
  )) as Row[];
  return {
    name: `${store.current.log} ${store.part().bytes}`,
    rows,
    errors: await findIntegrityErrors(connection, store),
  };
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
  { catalogs, current }: OpenStore<null>,
): Promise<string[]> {
  const errors: string[] = [];
  const count = async (from: Sql) =>
    Number((await queryRows(connection, sql`select count(*) from ${from}`))[0]?.[0]);
  const expectNone = async (what: string, from: Sql) => {
    const found = await count(from);
    if (found > 0) errors.push(`${found} ${what}`);
  };
  const ofBase = await count(raw(`${catalogs.base}.purchase`));
  if (ofBase !== (current.base === null ? 0 : current.purchases))
    errors.push(`a base of ${ofBase} rows instead of ${current.purchases}`);
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
