import { describe, expect } from 'vitest';
import { formatInstant } from '../../src/domain/instant.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { zoneOffsets } from '../../src/domain/time-zone.ts';
import { createInstance, withDuckDBConnection } from '../../src/duckdb/connection.ts';
import { createPeriodTables } from '../../src/engines/duckdb/calendar/period-tables.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { test as it } from '../support/fixtures.ts';
import { localDayReader } from '../support/local-day.ts';
import { addCustomer, addOrganization } from '../support/shop.ts';
import { openEngine } from './store.ts';

const zones = [
  'UTC',
  'America/Sao_Paulo',
  'America/New_York',
  'America/St_Johns',
  'America/Havana',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'Asia/Gaza',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Kiritimati',
  'Africa/Monrovia',
  'Africa/Casablanca',
  'Europe/Dublin',
  'Europe/London',
  'Antarctica/Troll',
] as const;
const microseconds = (text: string) => BigInt(Date.parse(text)) * 1000n;
const hour = 3_600_000_000n;

/** Instants at each change of the clocks of each zone, one microsecond before, and hours around it. */
async function nearChanges(): Promise<bigint[]> {
  const [from, to] = [microseconds('1965-01-01T00:00Z'), microseconds('2030-01-01T00:00Z')];
  const offsets = await Promise.all(zones.map((zone) => zoneOffsets(zone, from, to)));
  const changes = offsets.flat().flatMap(({ until }) => (until === null ? [] : [until]));
  const around = [-24n, -3n, -1n, 0n, 1n, 2n, 23n].map((count) => count * hour);
  const near = changes.flatMap((change) =>
    around.flatMap((away) => [change + away - 1n, change + away]),
  );
  return [...new Set(near)];
}

const near = await nearChanges();
const copies = 8;
const smallest = { threads: 1, memoryLimit: '64MiB' } as const;

/** Each quarter hour of a spring, in which many clocks change, and the microsecond before each. */
function dense(): bigint[] {
  const [from, to] = [microseconds('2026-03-01T00:00Z'), microseconds('2026-04-07T00:00Z')];
  const instants: bigint[] = [];
  for (let at = from; at < to; at += hour / 4n) instants.push(at - 1n, at);
  return instants;
}

describe('a day in a time zone', () => {
  let engines: Record<'postgres' | 'tested', PurchaseEngine>;
  const shops = { near: 0n, dense: 0n, far: 0n, empty: 0n };
  const instants = {
    near,
    // So many that tables have the days of zones whose clocks change.
    dense: Array.from({ length: copies }, dense).flat(),
    // Years outside those with known offsets, in which days are in UTC.
    far: ['0001-01-01T00:00Z', '1899-12-31T23:59Z', '2100-01-01T00:00Z', '9999-12-31T23:59Z']
      .map(microseconds)
      .concat(microseconds('1969-12-31T23:59:59.999Z'), microseconds('2026-07-01T02:30Z')),
    empty: [],
  };

  it.beforeAll(async ({ database, directory }) => {
    for (const name of ['near', 'dense', 'far', 'empty'] as const) {
      const organization = await addOrganization(database.pool);
      const customer = await addCustomer(database.pool, organization);
      await database.pool.query(
        `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at)
         select $1, $2, 1, unnest($3::timestamptz[])`,
        [organization, customer, instants[name].map(formatInstant)],
      );
      shops[name] = organization;
    }
    const store = await openEngine(database.pool, directory);
    const worker = await store.createWorker();
    await worker.once(Object.values(shops)).finally(() => worker.close());
    engines = { postgres: createPostgresEngine(database.pool), tested: store.engine };
    return store.close;
  });

  const daysBy = async (
    engine: PurchaseEngine,
    organization: bigint,
    timeZone: string,
    filters = {},
  ) => {
    const zone = timeZone === 'UTC' ? {} : { timeZone };
    const query = { filters, groupBy: 'day', groupLimit: 1_000_000, ...zone } as const;
    const { result } = await readPurchaseStats(engine, organization, query);
    return Object.fromEntries(result.groups.map(({ key, purchaseCount }) => [key, purchaseCount]));
  };
  const countBy = (days: readonly string[]) => {
    const counts: Record<string, bigint> = {};
    for (const day of days) counts[day] = (counts[day] ?? 0n) + 1n;
    return counts;
  };

  it.each(zones)(
    '%s begins and ends when the local date changes, in both engines',
    async (zone) => {
      expect(instants.near.length).toBeGreaterThan(5000);
      const expected = countBy(instants.near.map(localDayReader(zone)));
      expect(await daysBy(engines.postgres, shops.near, zone)).toEqual(expected);
      expect(await daysBy(engines.tested, shops.near, zone)).toEqual(expected);
    },
  );

  it.for(zones)(
    '%s has the same days for many purchases',
    { tags: ['slow'] },
    async (timeZone, { directory }) => {
      const [sorted, purchases] = [dense(), instants.dense.length];
      const [since, until] = [sorted[0] ?? 0n, sorted.at(-1) ?? 0n];
      const instance = await createInstance({ ...smallest, spillDirectory: directory });
      const table = await withDuckDBConnection(instance, (connection) =>
        createPeriodTables(instance)
          .of(connection)
          .covering({ interval: 'day', timeZone }, { since, until }, purchases),
      );
      instance.closeSync();
      const offsets = await zoneOffsets(timeZone, since, until);
      expect(table === null).toBe(offsets.length === 1);
      const days = sorted.map(localDayReader(timeZone));
      const expected = countBy(Array.from({ length: copies }, () => days).flat());
      expect(await daysBy(engines.tested, shops.dense, timeZone)).toEqual(expected);
    },
  );

  it.for(zones)('%s has the same days within time bounds', { tags: ['slow'] }, async (zone) => {
    const [createdSince, createdUntil] = [
      microseconds('1999-10-20T00:00Z'),
      microseconds('2011-12-31T11:00Z'),
    ];
    const within = instants.near.filter((at) => at >= createdSince && at <= createdUntil);
    const expected = countBy(within.map(localDayReader(zone)));
    for (const engine of Object.values(engines)) {
      expect(await daysBy(engine, shops.near, zone, { createdSince, createdUntil })).toEqual(
        expected,
      );
    }
  });

  it('is a day in UTC before 1900 and after 2099', async () => {
    for (const engine of Object.values(engines)) {
      expect(Object.keys(await daysBy(engine, shops.far, 'America/Sao_Paulo')).sort()).toEqual([
        '0001-01-01',
        '1899-12-31',
        '1969-12-31',
        '2026-06-30',
        '2100-01-01',
        '9999-12-31',
      ]);
    }
  });

  it('is missing if no purchase matches', async () => {
    for (const engine of Object.values(engines)) {
      expect(await daysBy(engine, shops.empty, 'Europe/Dublin')).toEqual({});
      const createdSince = microseconds('9000-01-01T00:00Z');
      const createdUntil = microseconds('0500-01-01T00:00Z');
      for (const filters of [{ createdSince }, { createdUntil }, { createdSince, createdUntil }]) {
        expect(await daysBy(engine, shops.near, 'Europe/Dublin', filters)).toEqual({});
      }
    }
  });
});
