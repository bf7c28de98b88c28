import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { NoGenerationError, type PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import type { Connection, Database } from '../../src/postgres/connection/pool.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { type Activity, failpoints } from '../support/failpoints/failpoints.ts';
import { test } from '../support/fixtures.ts';
import { addMarker, type Marker, untilShown } from '../support/marker.ts';
import { expectEqual } from '../support/published.ts';
import { addCustomer, addOrganization } from '../support/shop.ts';
import { maxLogRecords, maxTickChanges } from '../support/small-steps.ts';
import { syncOnce } from '../support/sync.ts';

const valueInCents = 1_000_000;
/** Markers, which count transactions, never have so much. */
const minValueInCents = 500_000;

async function addValuedPurchases(database: Database, organization: bigint, count: number) {
  const customer = await addCustomer(database, organization);
  await database.query(
    `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
     select $1, $2, $3 from generate_series(1, $4)`,
    [organization, customer, valueInCents, count],
  );
}

/** Two published organizations: the first has a log only, the second has a base too. */
type Pair = { readonly markers: readonly [Marker, Marker]; readonly counts: readonly number[] };

const it = test
  .extend('pair', { scope: 'file' }, async ({ database: { pool }, directory }): Promise<Pair> => {
    const [one, other] = [await addOrganization(pool), await addOrganization(pool)];
    const markers = [await addMarker(pool, one), await addMarker(pool, other)] as const;
    await addValuedPurchases(pool, one, 400);
    await addValuedPurchases(pool, other, 1_500);
    await syncOnce(pool, directory, { maxPurchasesWithoutBase: 1_000 });
    return { markers, counts: [401, 1_501] };
  })
  .extend('reader', { scope: 'file' }, async ({ directory }, { onCleanup }) => {
    const engine = await createTestDuckDBEngine(directory, { onError: () => {} });
    onCleanup(engine.close);
    return engine;
  })
  /** Runs a worker until everything is published. */
  .extend('recover', ({ database, directory, pair, reader, program }) => async () => {
    const worker = program('test/support/chaos/small-chunks.ts', [], {
      SYNC_POLL_INTERVAL_MS: '10',
    });
    const [one, other] = pair.markers;
    // Those that were added for loads: the next worker would be busy with them.
    await database.pool.query('delete from organizations where id <> all ($1)', [
      [one.organizationId, other.organizationId],
    ]);
    // Only this worker can publish them.
    await one.increment((connection) => takeACent(connection, other));
    await other.increment((connection) => takeACent(connection, one));
    for (const marker of pair.markers) await untilShown(marker, reader);
    expect(await worker.end('SIGTERM'), worker.output()).toBe(0);
    for (const { organizationId } of pair.markers) {
      await expectEqual(database.pool, directory, organizationId);
    }
  });

/** Takes a cent from any purchase of an organization, beside the marker. */
const takeACent = (connection: Connection, { organizationId }: Marker) =>
  connection.query(
    `update purchases set purchase_value_in_cents = purchase_value_in_cents - 1
     where id = (
       select id from purchases where organization_id = $1 and purchase_value_in_cents > $2
       order by random() limit 1
     )`,
    [organizationId, minValueInCents],
  );

/** Replaces purchases of an organization by others of the same value. */
const replaceSome = (connection: Connection, { organizationId }: Marker, count: number) =>
  connection.query(
    `with deleted as (
       delete from purchases where id in (
         select id from purchases where organization_id = $1 and purchase_value_in_cents > $3
         order by random() limit $2
       ) returning *
     )
     insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
     select organization_id, customer_id, purchase_value_in_cents, 'source ' || id % 50 from deleted`,
    [organizationId, count, minValueInCents],
  );

/** Transactions that cause an activity of the worker. All keep the totals of both organizations. */
async function write({ markers }: Pair, database: Database, activity: Activity): Promise<void> {
  const [one, other] = markers;
  const counts: Readonly<Record<Activity, readonly [number, number]>> = {
    tick: [2, 2],
    // Each has two changes a purchase: together they are too many for a tick.
    join: [0.3 * maxTickChanges, 0.3 * maxTickChanges],
    load: [1, 1],
    'catch up': [1, maxTickChanges],
    compaction: [0.3 * maxLogRecords, 0.3 * maxLogRecords],
    // Fewer than a compaction needs by the end of the one before: it would go first each time.
    save: [1, 1],
  };
  for (const [marker, opposite] of [
    [one, other],
    [other, one],
  ] as const) {
    await marker.increment(async (connection) => {
      await takeACent(connection, opposite);
      for (const [index, each] of markers.entries()) {
        await replaceSome(connection, each, counts[activity][index] as number);
      }
    });
  }
  if (activity === 'load') {
    await addValuedPurchases(database, await addOrganization(database), 1_200);
  }
}

/** Reads until `isOver`. Returns how often both organizations showed one tick. */
async function readAtomically(
  { markers, counts }: Pair,
  reader: PurchaseEngine,
  startReader: () => Promise<PurchaseEngine>,
  isOver: () => boolean,
): Promise<number> {
  let compared = 0;
  const revenue = BigInt(1_900 * valueInCents);
  const shown = markers.map(() => 0n);
  const check = async (engine: PurchaseEngine) => {
    const read = markers.map(async ({ organizationId }, index) => {
      const before = shown[index] as bigint;
      const { result, asOf } = await readPurchaseStats(engine, organizationId, {
        filters: {},
        groupLimit: 1,
      });
      expect(result.purchaseCount).toBe(BigInt(counts[index] as number));
      expect(asOf).toBeGreaterThanOrEqual(before);
      if (asOf > (shown[index] as bigint)) shown[index] = asOf;
      return { asOf, revenue: result.revenueInCents };
    });
    const [one, other] = await Promise.all(read);
    for (const marker of markers) await marker.read(engine);
    if (one === undefined || other === undefined || one.asOf !== other.asOf) return;
    expect(one.revenue + other.revenue).toBe(revenue);
    compared += 1;
  };
  const checkIfPublished = (engine: PurchaseEngine) =>
    check(engine).catch((error) => {
      if (!(error instanceof NoGenerationError)) throw error;
    });
  for (let round = 0; !isOver(); round += 1) {
    await checkIfPublished(reader);
    if (round % 10 === 0) {
      const engine = await startReader();
      await checkIfPublished(engine).finally(() => engine.close());
    }
    await sleep(5);
  }
  return compared;
}

describe('a worker that is killed', { tags: ['slow'] }, () => {
  it.for(failpoints)(
    'during a $activity, $step, shows each tick as a whole or not at all, and loses no change',
    async ({ activity, step }, { database, directory, pair, reader, program, recover }) => {
      const worker = program('test/support/failpoints/worker.ts', [activity, step], {
        SYNC_POLL_INTERVAL_MS: '10',
      });
      let isOver = false;
      const writing = (async () => {
        for (; !isOver; await sleep(50)) await write(pair, database.pool, activity);
      })();
      const startReader = () => createTestDuckDBEngine(directory, { onError: () => {} });
      const reading = readAtomically(pair, reader, startReader, () => isOver);
      try {
        await Promise.race([worker.exited(), writing, reading]);
      } finally {
        isOver = true;
        await Promise.all([writing, reading]);
      }
      expect(worker.child.signalCode, worker.output()).toBe('SIGKILL');
      await readAtomically(pair, reader, startReader, onceTrue());
      await recover();
      // Until then, a busy machine may show no pair of one tick.
      const recovered = await readAtomically(pair, reader, startReader, onceTrue());
      expect(recovered).toBeGreaterThan(0);
    },
  );
});

/** False at the first call. */
function onceTrue(): () => boolean {
  let calls = 0;
  return () => {
    calls += 1;
    return calls > 1;
  };
}
