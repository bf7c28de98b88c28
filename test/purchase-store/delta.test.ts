import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import sql from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import {
  type PurchaseColumn,
  type PurchaseRow,
  purchaseColumns,
  purchaseFromRow,
} from '../../src/domain/purchase.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createInstance, detach, queryRows, quotePath } from '../../src/duckdb/connection.ts';
import { type Shortcuts, shortcutSettings } from '../../src/duckdb/shortcuts.ts';
import type { DuckDBEngine } from '../../src/engines/duckdb/engine.ts';
import type { ChangedPurchase } from '../../src/purchase-store/delta/decode-records.ts';
import { createDelta } from '../../src/purchase-store/delta/delta.ts';
import { savedDeltaOf } from '../../src/purchase-store/delta/saved-delta.ts';
import { currentFile } from '../../src/purchase-store/format/current.ts';
import { createBases } from '../../src/purchase-store/open-store.ts';
import { saveDelta } from '../../sync/builds/compact/save-delta.ts';
import { noRecords } from '../../sync/capture/changed-purchases.ts';
import type { NewLog } from '../../sync/files/log-files.ts';
import { awkwardAmounts, awkwardInstants, awkwardLabels } from '../support/awkward-purchases.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test } from '../support/fixtures.ts';
import { heldBytes } from '../support/held-bytes.ts';
import { deleteLine, purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';
import { publishFiles, publishTestTick } from '../support/store-files.ts';

const file = { scope: 'file' } as const;

const it = test
  .extend('instance', file, async ({ directory }, { onCleanup }) => {
    const spillDirectory = join(directory, 'spill');
    const instance = await createInstance({
      threads: 2,
      memoryLimit: '512MiB',
      spillDirectory,
      dataDirectory: dirname(directory),
    });
    onCleanup(async () => instance.closeSync());
    return instance;
  })
  /** The base of organizations without a base. */
  .extend('bases', file, ({ instance }) => createBases(instance, () => null))
  /** Opens an engine over `newDirectory`. */
  .extend('openEngine', ({ newDirectory }, { onCleanup }) => {
    const engines: DuckDBEngine[] = [];
    onCleanup(async () => {
      for (const engine of engines) await engine.close();
    });
    return async (shortcuts: Partial<Shortcuts> = {}) => {
      const engine = await createTestDuckDBEngine(newDirectory, { shortcuts });
      engines.push(engine);
      return engine;
    };
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
const batchesOf = fc.array(fc.array(change, { maxLength: 8 }), { minLength: 3, maxLength: 6 });

const append = (log: NewLog, tick: number, changes: readonly ChangedPurchase[]) =>
  log.append(
    recordsOf(changes.map(({ id, row }) => (row === null ? deleteLine(id) : upsertLine(row)))),
    tick,
  );

/** What an organization shows at the instant `tick`: all purchases, and their sums by a label. */
async function shownAt(engine: DuckDBEngine, organization: bigint, tick: number) {
  await engine.waitUntilFresh(organization, BigInt(tick), AbortSignal.timeout(120_000));
  const { result: list } = await engine.list(organization, { filters: {}, limit: 100 });
  const query = { filters: {}, groupBy: 'utm_source', groupLimit: 100 } as const;
  const { result: stats } = await readPurchaseStats(engine, organization, query);
  const { purchaseCount, customerCount, revenueInCents } = stats;
  const groups = new Map(stats.groups.map(({ key, ...sums }) => [key, sums]));
  return { purchases: list.purchases, groups, purchaseCount, customerCount, revenueInCents };
}

/** The same, of the changes. */
function expectedOf(changes: readonly ChangedPurchase[]): Awaited<ReturnType<typeof shownAt>> {
  const current = new Map(changes.map(({ id, row }) => [id, row]));
  const purchases = [...current.values()].flatMap((row) => (row ? [purchaseFromRow(row)] : []));
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
  const customerCount = BigInt(new Set(purchases.map((each) => each.customer_id)).size);
  return {
    purchases,
    groups,
    purchaseCount: BigInt(purchases.length),
    customerCount,
    revenueInCents,
  };
}

it('a log shows the purchases of its changes, replayed at opening or applied later', async ({
  newDirectory,
  openEngine,
}) => {
  // Batches of several changes are replayed, or none.
  const thresholds = [6, shortcutSettings.maxLinesOneByOne.forced];
  const open = () => Promise.all(thresholds.map((max) => openEngine({ maxLinesOneByOne: max })));
  const [early, late] = [await open(), await open()];
  let organization = 0n;
  let tick = 0;
  await fc.assert(
    fc.asyncProperty(batchesOf, async (batches) => {
      organization += 1n;
      const log = publishFiles(newDirectory, organization, noRecords);
      for (const [index, changes] of batches.entries()) {
        tick += 1;
        append(log, tick, changes);
        publishTestTick(newDirectory, tick);
        const expected = expectedOf(batches.slice(0, index + 1).flat());
        for (const engine of early) {
          expect(await shownAt(engine, organization, tick)).toEqual(expected);
        }
      }
      const expected = expectedOf(batches.flat());
      for (const engine of late) {
        expect(await shownAt(engine, organization, tick)).toEqual(expected);
      }
    }),
    // A run that shrinks would go on after the test.
    { numRuns: 4, endOnFailure: true },
  );
});

describe('a saved delta', () => {
  const organization = 1n;
  const cent = (id: bigint, cents: bigint): ChangedPurchase => ({
    id,
    row: purchaseRow({ id, purchase_value_in_cents: cents }),
  });
  const batches = [[cent(1n, 1n)], [cent(2n, 10n), cent(1n, 2n)], [cent(3n, 100n)]];
  const savedDeltaIn = ({ path, name }: NewLog) => join(dirname(path), savedDeltaOf(name));

  const its = it
    .extend('publish', ({ newDirectory }) => (ticks: readonly (readonly ChangedPurchase[])[]) => {
      const log = publishFiles(newDirectory, organization, noRecords);
      for (const [index, changes] of ticks.entries()) append(log, index + 1, changes);
      publishTestTick(newDirectory, 3);
      return log;
    })
    /** Saves the delta of the second tick, with 5,000 cents more than the log: so readers tell them apart. */
    .extend('saved', async ({ instance, bases, publish }) => {
      const log = publish(batches);
      const files = { base: null, log: log.name, logBytes: 0, asOf: 1n };
      await saveDelta(
        { instance, bases, organizationId: organization },
        dirname(log.path),
        files,
        2,
      );
      const connection = await instance.connect();
      await connection.run(`
        attach ${quotePath(savedDeltaIn(log))} as saved;
        update saved.change set purchase_value_in_cents = 5010 where id = 2;
        detach saved`);
      connection.closeSync();
      return log;
    })
    /** The revenue that a new reader shows at a tick. */
    .extend('revenue', ({ newDirectory, openEngine }) => async (tick = 3) => {
      publishTestTick(newDirectory, tick);
      const query = { filters: {}, groupLimit: 1 };
      return (await readPurchaseStats(await openEngine(), organization, query)).result
        .revenueInCents;
    });

  its('is loaded, with the later batches of the log', async ({ saved: _, revenue }) => {
    expect([await revenue(), await revenue(2)]).toEqual([5_112n, 5_012n]);
  });

  its('of later batches than the published ones is not loaded', async ({ saved: _, revenue }) => {
    expect(await revenue(1)).toBe(1n);
  });

  its('of a log whose batches were replaced is not loaded', async ({ saved, publish, revenue }) => {
    const [first = [], , third = []] = batches;
    const current = currentFile(dirname(saved.path));
    const content = readFileSync(current);
    const other = publish([first, [cent(2n, 20n), cent(1n, 3n)], third]);
    writeFileSync(saved.path, readFileSync(other.path));
    writeFileSync(current, content);
    expect(await revenue()).toBe(123n);
  });

  its('of another log is not loaded', async ({ saved, publish, revenue }) => {
    writeFileSync(savedDeltaIn(publish(batches)), readFileSync(savedDeltaIn(saved)));
    expect(await revenue()).toBe(112n);
  });

  its('that is damaged is removed', async ({ saved, revenue }) => {
    const content = readFileSync(savedDeltaIn(saved));
    for (let at = 8_192; at < content.length; at += 4_096) content[at] = ~(content[at] as number);
    writeFileSync(savedDeltaIn(saved), content);
    expect(await revenue()).toBe(112n);
    expect(existsSync(savedDeltaIn(saved))).toBe(false);
  });
});

it('much text does not occupy the event loop: requests of others would wait', {
  tags: ['slow'],
}, async ({ newDirectory, instance, bases }) => {
  const connection = await instance.connect();
  const text = `\\n\n\t${'\\'.repeat(60_000)}`;
  const rows = Array.from({ length: 200 }, (_, id) =>
    purchaseRow({ id: BigInt(id), coupons: text }),
  );
  const { path } = publishFiles(newDirectory, 1n, recordsOf(rows.map(upsertLine)));
  const content = readFileSync(path);
  const lines = content.toString().split('\n').length - 1;
  const { catalog: base } = await bases.acquire(null);
  const part = { path, lines, bytes: content.length, read: () => content };
  const before = performance.eventLoopUtilization();
  await createDelta(connection, { base, delta: 'much_text' }, part, 0n);
  expect(performance.eventLoopUtilization(before).utilization).toBeLessThan(0.5);
  const shown = sql`select coupons, count(*) from much_text.change where sign > 0 group by all`;
  expect(await queryRows(connection, shown)).toEqual([[text, 200n]]);
  await detach(connection, 'much_text');
  connection.closeSync();
});

it('holds the labels of its changes, but not their log', async ({
  newDirectory,
  instance,
  bases,
}) => {
  const rows = Array.from({ length: 100 }, (_, id) =>
    purchaseRow({
      id: BigInt(id),
      utm_campaign: 'a campaign of spring',
      coupons: 'x'.repeat(5_000),
    }),
  );
  const { path } = publishFiles(newDirectory, 1n, recordsOf(rows.map(upsertLine)));
  const { length: bytes } = readFileSync(path);
  const { catalog: base } = await bases.acquire(null);
  const connection = await instance.connect();
  const deltas: unknown[] = [];
  const create = async () => {
    const part = { path, lines: rows.length + 1, bytes, read: () => readFileSync(path) };
    const catalogs = { base, delta: `held_${deltas.length}` };
    deltas.push(await createDelta(connection, catalogs, part, 0n));
  };
  await create();
  const before = heldBytes();
  while (deltas.length <= 20) await create();
  expect((heldBytes() - before) / 20).toBeLessThan(bytes / 4);
  connection.closeSync();
});
