import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import fc from 'fast-check';
import sql, { join as joinSql, raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import {
  type PurchaseColumn,
  type PurchaseRow,
  paymentStatuses,
  purchaseColumns,
  purchaseFromRow,
} from '../../src/domain/purchase.ts';
import { createInstance, detach, queryRows } from '../../src/duckdb/connection.ts';
import type { PeriodTables } from '../../src/engines/duckdb/calendar/period-tables.ts';
import { listPurchases } from '../../src/engines/duckdb/list/list.ts';
import { createGeneration } from '../../src/engines/duckdb/serving/generation.ts';
import { purchaseStats } from '../../src/engines/duckdb/statistics/stats.ts';
import type { ChangedPurchase } from '../../src/purchase-store/delta/decode-records.ts';
import { createDelta, maxLinesOneByOne } from '../../src/purchase-store/delta/delta.ts';
import { savedDeltaOf } from '../../src/purchase-store/delta/saved-delta.ts';
import { createPreviousPurchases } from '../../src/purchase-store/format/last-purchases.ts';
import {
  createBaseLayout,
  dictionaries,
  entriesOfDelta,
} from '../../src/purchase-store/format/layout.ts';
import { appendBatches, emptyLog } from '../../src/purchase-store/format/log.ts';
import { previousQuarterNames } from '../../src/purchase-store/format/previous-purchases.ts';
import { quarterHourOf, quarterHourSql } from '../../src/purchase-store/format/quarter-hours.ts';
import {
  dictionaryEntries,
  type StoreCatalogs,
  selectEntries,
} from '../../src/purchase-store/format/relations.ts';
import {
  type Bases,
  createBases,
  type NamedFiles,
  type OpenStore,
  openStore,
} from '../../src/purchase-store/open-store.ts';
import { insertPurchases } from '../../sync/builds/load/insert-purchases.ts';
import { awkwardAmounts, awkwardInstants, awkwardLabels } from '../support/awkward-purchases.ts';
import { test } from '../support/fixtures.ts';
import { deleteLine, purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';

const file = { scope: 'file' } as const;

const it = test
  .extend('instance', file, async ({ directory }, { onCleanup }) => {
    const spillDirectory = join(directory, 'spill');
    const instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
    onCleanup(async () => instance.closeSync());
    return instance;
  })
  /** The base of organizations without a base. */
  .extend('empty', file, ({ instance }) => createBases(instance, () => null))
  .extend('connection', file, async ({ instance }, { onCleanup }) => {
    const connection = await instance.connect();
    onCleanup(async () => connection.closeSync());
    return connection;
  });

const awkwardTexts = [
  ...awkwardLabels,
  '\\N',
  '\\',
  '\\\\n',
  '\\t\\',
  '"quoted", \'twice\'',
  '\b\f\n\r\t\v',
  '\r\n',
  'e\t1\t1\t1\t1\t1',
  '\ufeff\ufeff',
  '\u0001\u001f\u007f\u0085\u2028',
];
const text = fc.oneof(
  fc.constantFrom(...awkwardTexts),
  // Postgres stores no NUL, and no half of a surrogate pair.
  fc.string({ unit: 'binary', maxLength: 5 }).filter((each) => !each.includes('\0')),
);
const cents = fc.constantFrom(...awkwardAmounts);
const coupons = fc.constantFrom('[]', '[{"code":"a\\n\\"b\\\\", "value":1.50}]');

function valueFor({ name, kind }: PurchaseColumn): fc.Arbitrary<bigint | string> {
  switch (kind) {
    case 'purchase_id':
      return fc.bigInt({ min: 1n, max: 7n });
    case 'customer_id':
      return fc.constantFrom(1n, 2n, 2n ** 63n - 1n);
    case 'cents':
      return cents;
    case 'instant':
      return fc
        .constantFrom(...awkwardInstants)
        .map((each) => parseInstant(each, 'down') as bigint);
    case 'coupons':
      return coupons;
    case 'label':
      if (name === 'payment_status')
        return fc.constantFrom('paid', 'refunded', 'shipped', 'a text');
      return name === 'currency' ? fc.constantFrom('BRL', 'USD', '') : text;
    case 'text':
      return text;
  }
}

const row: fc.Arbitrary<PurchaseRow> = fc.tuple(
  ...purchaseColumns.map((column) => {
    const value = valueFor(column);
    return column.required ? value : fc.option(value, { freq: 3 });
  }),
);
const change: fc.Arbitrary<ChangedPurchase> = fc.oneof(
  { weight: 3, arbitrary: row.map((each) => ({ id: each[0] as bigint, row: each })) },
  { weight: 1, arbitrary: fc.bigInt({ min: 1n, max: 8n }).map((id) => ({ id, row: null })) },
);
const histories = fc.record({
  /** The purchases of the base; null without a base. */
  base: fc.option(fc.uniqueArray(row, { maxLength: 6, selector: ([id]) => id })),
  /** Changes between the reads of a load: the base also has an earlier state of these purchases. */
  duringLoad: fc.uniqueArray(change, { maxLength: 2, selector: ({ id }) => id }),
  batches: fc.array(fc.array(change, { maxLength: 8 }), { minLength: 3, maxLength: 6 }),
});

const lineOf = ({ id, row }: ChangedPurchase): string =>
  row === null ? deleteLine(id) : upsertLine(row);

type Model = ReadonlyMap<bigint, PurchaseRow>;

function applied(model: Model, changes: readonly ChangedPurchase[]): Model {
  const next = new Map(model);
  for (const { id, row } of changes) {
    if (row === null) next.delete(id);
    else next.set(id, row);
  }
  return next;
}

const savedDeltaIn = (log: string): string => join(dirname(log), savedDeltaOf(basename(log)));

let stores = 0;

/** Writes a log with these batches, of the ticks 1, 2, … */
function writeLog(path: string, batches: readonly (readonly ChangedPurchase[])[]): void {
  writeFileSync(path, '');
  batches.reduce(
    (end, changes, index) =>
      appendBatches(path, end, { tick: index + 1, ...recordsOf(changes.map(lineOf)) }),
    emptyLog,
  );
}

/** Opens a log over a base that is attached, or without a base. */
function open<Content>(
  connection: DuckDBConnection,
  bases: Bases<Content>,
  log: string,
  published = Number.POSITIVE_INFINITY,
): Promise<OpenStore<Content, NamedFiles>> {
  stores += 1;
  const files = { base: null, log: basename(log), logBytes: 0, asOf: 1n };
  const options = { published, catalog: `delta_${stores}` };
  return openStore(connection, bases, join(log, '..'), files, options);
}

/**
 * Attaches a base with the current purchases of a store, and with an earlier state of some of them. A load
 * reads each place in the order of creation once, so the states have other places.
 */
async function createBase(
  connection: DuckDBConnection,
  { delta }: StoreCatalogs,
  earlier: readonly bigint[],
): Promise<Bases<null> & { readonly catalog: string }> {
  const catalog = `base_of_${delta}`;
  await connection.run(`
    attach ':memory:' as ${catalog}; ${createBaseLayout(catalog)};`);
  const purchases = `
    select * exclude (sign) from ${delta}.change where sign > 0
    union all
    select * exclude (sign) replace (7 as purchase_value_in_cents, updated_at as created_at,
      ${quarterHourSql('epoch_us(updated_at)')} as created_quarter_hour)
    from ${delta}.change where sign > 0 and updated_at <> created_at
      and list_contains([${earlier.join()}]::bigint[], id)`;
  for (const each of dictionaries) {
    const entries = selectEntries(entriesOfDelta(delta, each), each);
    await connection.run(`insert into ${catalog}.${each.table} ${entries}`);
  }
  await insertPurchases(connection, catalog, createPreviousPurchases(), raw(purchases));
  return {
    catalog,
    acquire: async () => ({ catalog, content: null, release: async () => {} }),
  };
}

const noTables: PeriodTables = { covering: async () => null };

/** What a store shows: all purchases, and their sums. */
async function shownBy(connection: DuckDBConnection, catalogs: StoreCatalogs, groupLimit = 100) {
  const generation = await createGeneration(connection, catalogs);
  const all = { filters: {}, limit: 100 };
  const { purchases } = await listPurchases(connection, generation, all);
  const query = { filters: {}, groupBy: 'utm_source', groupLimit } as const;
  const stats = await purchaseStats(connection, generation, query, noTables);
  const signs = await queryRows(
    connection,
    sql`
      select id, sum(sign)::bigint as signs from (
        select id, 1 as sign from ${raw(catalogs.base)}.purchase
        union all select id, sign from ${raw(catalogs.delta)}.change where sign <> 0
      ) group by id having signs <> 0 order by id`,
  );
  const repeated = await queryRows(
    connection,
    joinSql(
      dictionaries.map(
        (dictionary) => sql`
          select ${dictionary.name}::varchar, ${raw(dictionary.value)}::varchar
          from ${dictionaryEntries(catalogs, dictionary)} group by all having count(*) > 1`,
      ),
      ' union all ',
    ),
  );
  const { groups, purchaseCount, customerCount, revenueInCents } = stats;
  const sums = { groups, purchaseCount, customerCount, revenueInCents };
  return { purchases, sums, signs, repeated, about: generation.summary.purchases };
}

/** Each purchase with its previous ones, as the base and the table `previous_change` say together. */
async function previousIn(connection: DuckDBConnection, { base, delta }: StoreCatalogs) {
  const columns = raw(`id, created_quarter_hour, ${previousQuarterNames}`);
  const rows = await queryRows(
    connection,
    sql`
      select * exclude (sign) from (
        select ${columns}, 1 as sign from ${raw(base)}.purchase
        union all select ${columns}, sign from ${raw(delta)}.previous_change
      ) group by all having sum(sign) <> 0 order by id`,
  );
  const [first] = await queryRows(
    connection,
    sql`select min(created_quarter_hour) from ${raw(base)}.purchase`,
  );
  return { rows, first: first?.[0] as number };
}

const isFiltered = (status: string | null) => paymentStatuses.some((each) => each === status);

/** The same, of a model. `first` is the first quarter of an hour of the base. */
function expectedPrevious(model: Model, first: number) {
  const last = new Map<string, number>();
  const purchases = [...model.values()].map((row) => ({ row, ...purchaseFromRow(row) }));
  purchases.sort((one, other) => {
    if (one.created_at !== other.created_at) return one.created_at < other.created_at ? -1 : 1;
    return one.id < other.id ? -1 : 1;
  });
  const rows = purchases.map(({ id, customer_id, payment_status, created_at }) => {
    const quarter = quarterHourOf(created_at);
    const status = isFiltered(payment_status) ? payment_status : 'any other';
    const previous = [`${customer_id}`, `${customer_id} ${status}`].map((chain) => {
      const before = last.get(chain) ?? first - 1;
      last.set(chain, quarter);
      return before;
    });
    return [id, quarter, ...previous];
  });
  return rows.sort(([one], [other]) => Number((one as bigint) - (other as bigint)));
}

/** The same, of a model. */
function expectedOf(model: Model): Awaited<ReturnType<typeof shownBy>> {
  const purchases = [...model.values()].map(purchaseFromRow);
  purchases.sort((one, other) => {
    if (one.created_at !== other.created_at) return one.created_at < other.created_at ? 1 : -1;
    return one.id < other.id ? 1 : -1;
  });
  const groups = new Map<string | null, { purchaseCount: bigint; revenueInCents: bigint }>();
  let revenueInCents = 0n;
  for (const { utm_source: key, purchase_value_in_cents: cents } of purchases) {
    const group = groups.get(key) ?? { purchaseCount: 0n, revenueInCents: 0n };
    group.purchaseCount += 1n;
    group.revenueInCents += cents;
    revenueInCents += cents;
    groups.set(key, group);
  }
  return {
    purchases,
    sums: {
      groups: expect.toSatisfy(
        (found: { key: string | null }[]) =>
          found.length === groups.size &&
          found.every(({ key, ...sums }) => {
            expect(sums).toEqual(groups.get(key));
            return true;
          }),
      ),
      purchaseCount: BigInt(model.size),
      customerCount: BigInt(new Set(purchases.map((each) => each.customer_id)).size),
      revenueInCents,
    },
    signs: [...model.keys()].sort((one, other) => Number(one - other)).map((id) => [id, 1n]),
    repeated: [],
    about: model.size,
  };
}

it('a log shows the same purchases, replayed in any way, as a model', { timeout: 300_000 }, async ({
  directory,
  empty,
  connection,
}) => {
  // A longer log is replayed in one statement.
  const padding = Array.from({ length: maxLinesOneByOne }, (_, index) => ({
    id: 100n + BigInt(index),
    row: null,
  }));

  let model: Model = new Map();
  const expectPrevious = async (store: OpenStore<null, NamedFiles>) => {
    const [base] = await queryRows(
      connection,
      sql`select count(*) from ${raw(store.catalogs.base)}.purchase`,
    );
    if (base?.[0] === 0n) return;
    await store.updatePreviousChanges(connection, async () => {});
    const { rows, first } = await previousIn(connection, store.catalogs);
    expect(rows).toEqual(expectedPrevious(model, first));
  };

  const saveAt = async (log: string, bases: Bases<null>, tick: number) => {
    const store = await open(connection, bases, log, tick);
    await store.save(connection);
    await store.close(connection);
  };

  await fc.assert(
    fc.asyncProperty(histories, async ({ base, duringLoad, batches }) => {
      const names = ['loaded', 'log', 'long', 'tail'];
      const paths = names.map((name) => join(directory, `${name}.tsv`));
      const [loadedLog, log, longLog, longTail] = paths as [string, string, string, string];
      model = new Map();
      let bases: Bases<null> = empty;
      let baseCatalog: string | null = null;
      let all = batches;
      if (base !== null) {
        model = applied(
          model,
          base.map((each) => ({ id: each[0] as bigint, row: each })),
        );
        writeLog(loadedLog, [[...model].map(([id, row]) => ({ id, row }))]);
        const loaded = await open(connection, empty, loadedLog);
        const ids = duringLoad.map(({ id }) => id);
        const created = await createBase(connection, loaded.catalogs, ids);
        await loaded.close(connection);
        [bases, baseCatalog] = [created, created.catalog];
        all = [duringLoad, ...batches];
      }
      writeLog(log, all);
      writeLog(longLog, [padding, ...all]);
      writeLog(longTail, [...all.slice(0, 1), padding, ...all.slice(1)]);

      const stepwise = await open(connection, bases, log, 1);
      const shown = applied(model, all[0] ?? []);
      expect(await shownBy(connection, stepwise.catalogs)).toEqual(expectedOf(shown));
      model = shown;
      for (const [index, changes] of all.slice(1).entries()) {
        const before = model.size;
        model = applied(model, changes);
        const pending = stepwise.findPending(index + 2);
        expect(pending?.records).toBe(changes.length);
        if (pending === null) throw new Error('the batch is missing');
        // Each earlier state of a purchase counts once more.
        const { purchases } = await stepwise.apply(connection, pending);
        expect(purchases).toBe(model.size - before);
        if (baseCatalog !== null && index % 2 === 0) await expectPrevious(stepwise);
      }
      expect(stepwise.findPending(100)).toBeNull();
      const whole = await open(connection, bases, log);
      const replayed = await open(connection, bases, longLog);
      const extended = await open(connection, bases, longTail, 1);
      if (baseCatalog !== null) await extended.updatePreviousChanges(connection, async () => {});
      const tail = extended.findPending(100);
      if (tail === null) throw new Error('the batch is missing');
      await extended.apply(connection, tail);
      await saveAt(longTail, bases, 1);
      const loaded = [await open(connection, bases, longTail)];
      for (const tick of [1, 2]) {
        await saveAt(log, bases, tick);
        loaded.push(await open(connection, bases, log));
      }
      const stores = [stepwise, whole, replayed, extended, ...loaded];
      expect(whole.part()).toEqual(stepwise.part());
      for (const { catalogs } of stores) {
        expect(await shownBy(connection, catalogs)).toEqual(expectedOf(model));
      }
      for (const store of baseCatalog === null ? [] : stores) await expectPrevious(store);
      for (const store of stores) await store.close(connection);
      // The next history has other logs of these names, with batches that may be the same.
      for (const path of [log, longTail]) rmSync(savedDeltaIn(path));
      if (baseCatalog !== null) await detach(connection, baseCatalog);
    }),
    // An interrupted or shrinking run would go on after the test, on the connection of the next one.
    { numRuns: 6, endOnFailure: true },
  );
});

it('the previous purchases of thousands of customers are those of a model', async ({
  directory,
  empty,
  connection,
}) => {
  const customers = 1_300;
  const purchase = (number: number, payment_status: string) => ({
    id: BigInt(number),
    row: purchaseRow({
      id: BigInt(number),
      customer_id: BigInt(number % customers),
      created_at: 1_700_000_000_000_000n + 100_000_000n * BigInt(number),
      payment_status,
    }),
  });
  const loaded = Array.from({ length: 3 * customers }, (_, number) => purchase(number, 'paid'));
  const batches = [
    // One more purchase of each customer, and another status of one that was loaded.
    Array.from({ length: 2 * customers }, (_, index) =>
      purchase(index < customers ? index + 3 * customers : index, 'refunded'),
    ),
    [purchase(1, 'refunded'), purchase(2 * customers, 'paid'), { id: 7n, row: null }],
    [purchase(3 * customers + 1, 'paid'), purchase(9 * customers + 2, 'paid')],
  ];
  const [loadedLog, log] = [join(directory, 'customers.tsv'), join(directory, 'changes.tsv')];
  writeLog(loadedLog, [loaded]);
  writeLog(log, [[], ...batches]);
  const source = await open(connection, empty, loadedLog);
  const base = await createBase(connection, source.catalogs, []);
  await source.close(connection);
  const store = await open(connection, base, log, 1);
  let model = applied(new Map(), loaded);
  for (const [index, changes] of [[], ...batches].entries()) {
    const pending = store.findPending(index + 1);
    if (pending !== null) await store.apply(connection, pending);
    model = applied(model, changes);
    await store.updatePreviousChanges(connection, async () => {});
    const { rows, first } = await previousIn(connection, store.catalogs);
    expect(rows).toEqual(expectedPrevious(model, first));
  }
  await store.close(connection);
  await detach(connection, base.catalog);
});

it('batches with thousands of labels, customers and purchases show them as a model', async ({
  directory,
  empty,
  connection,
}) => {
  const rows = 1_500;
  const labels = 5_000;
  /** Half of the labels and purchases are those of the batch before. */
  const batches = Array.from({ length: 7 }, (_, batch) =>
    Array.from({ length: rows }, (_, index) => {
      const number = BigInt((batch * rows) / 2 + index);
      const label = String(number % BigInt(labels));
      const changed = { id: number, customer_id: BigInt(label) * 7n, utm_source: `label ${label}` };
      return { id: number, row: number % 11n === 0n ? null : purchaseRow(changed) };
    }),
  );
  const log = join(directory, 'many.tsv');
  writeLog(log, batches);
  const stepwise = await open(connection, empty, log, 1);
  for (let tick = 2; tick <= batches.length; tick += 1) {
    const pending = stepwise.findPending(tick);
    if (pending === null) throw new Error('the batch is missing');
    await stepwise.apply(connection, pending);
  }
  const whole = await open(connection, empty, log);
  const { signs, purchases: _, ...expected } = expectedOf(applied(new Map(), batches.flat()));
  for (const store of [stepwise, whole]) {
    const shown = await shownBy(connection, store.catalogs, labels);
    expect(shown.signs).toHaveLength(signs.length);
    expect(shown).toMatchObject(expected);
    await store.close(connection);
  }
});

describe('a saved delta', () => {
  const cent = (id: bigint, cents: bigint): ChangedPurchase => ({
    id,
    row: purchaseRow({ id, purchase_value_in_cents: cents }),
  });
  const batches = [[cent(1n, 1n)], [cent(2n, 10n), cent(1n, 2n)], [cent(3n, 100n)]];

  const its = it
    .extend('log', ({ directory }) => join(directory, 'log-5a.tsv'))
    /** The revenue that a reader shows, up to the last tick or an earlier one. */
    .extend('revenue', ({ connection, empty, log }) => async (tick?: number, path = log) => {
      const store = await open(connection, empty, path, tick);
      const { sums } = await shownBy(connection, store.catalogs);
      await store.close(connection);
      return sums.revenueInCents;
    })
    /** Saves the delta of the second tick, with 5,000 cents more than the log: so readers tell them apart. */
    .extend('saved', ({ connection, empty, log }) => async () => {
      writeLog(log, batches);
      const store = await open(connection, empty, log, 2);
      await store.save(connection);
      await store.close(connection);
      await connection.run(`
        attach '${savedDeltaIn(log)}' as saved;
        update saved.change set purchase_value_in_cents = 5010 where id = 2;
        detach saved`);
    });

  its('is loaded, with the later batches of the log', async ({ saved, revenue }) => {
    await saved();
    expect([await revenue(), await revenue(2)]).toEqual([5_112n, 5_012n]);
  });

  its('of later batches than the published ones is not loaded', async ({ saved, revenue }) => {
    await saved();
    expect(await revenue(1)).toBe(1n);
  });

  its('of a log whose batches were replaced is not loaded', async ({ saved, revenue, log }) => {
    await saved();
    const [first = [], ...others] = batches;
    writeLog(log, [first, [cent(2n, 20n), cent(1n, 3n)], ...others.slice(1)]);
    expect(await revenue()).toBe(123n);
  });

  its('of another log is not loaded', async ({ saved, revenue, log, directory }) => {
    await saved();
    const other = join(directory, 'log-5b.tsv');
    writeFileSync(other, readFileSync(log));
    writeFileSync(savedDeltaIn(other), readFileSync(savedDeltaIn(log)));
    expect(await revenue(undefined, other)).toBe(112n);
  });

  its('that is damaged is removed', async ({ saved, revenue, log }) => {
    await saved();
    const content = readFileSync(savedDeltaIn(log));
    for (let at = 8_192; at < content.length; at += 4_096) content[at] = ~(content[at] as number);
    writeFileSync(savedDeltaIn(log), content);
    expect(await revenue()).toBe(112n);
    expect(existsSync(savedDeltaIn(log))).toBe(false);
  });
});

it('much text does not occupy the event loop: requests of others would wait', async ({
  directory,
  empty,
  connection,
}) => {
  const text = `\\n\n\t${'\\'.repeat(60_000)}`;
  const rows = Array.from({ length: 200 }, (_, id) =>
    purchaseRow({ id: BigInt(id), coupons: text }),
  );
  const path = join(directory, 'text.tsv');
  writeLog(path, [rows.map((row) => ({ id: row[0] as bigint, row }))]);
  const content = readFileSync(path);
  const lines = content.toString().split('\n').length - 1;
  const { catalog: base } = await empty.acquire(null);
  const part = { path, lines, bytes: content.length, read: () => content };
  const before = performance.eventLoopUtilization();
  await createDelta(connection, { base, delta: 'much_text' }, part, 0n);
  expect(performance.eventLoopUtilization(before).utilization).toBeLessThan(0.5);
  const shown = sql`select coupons, count(*) from much_text.change where sign > 0 group by all`;
  expect(await queryRows(connection, shown)).toEqual([[text, 200n]]);
  await detach(connection, 'much_text');
});
