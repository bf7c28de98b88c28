import { expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { PurchaseTimeSeriesQuery } from '../../src/domain/purchase-query.ts';
import { cohortIntervals } from '../../src/domain/purchase-report.ts';
import { readPurchaseTimeSeries } from '../../src/domain/purchase-stats.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { test as base } from '../support/fixtures.ts';
import { untilShown } from '../support/published.ts';

/** Shops whose purchases are so many in a quarter of an hour that queries join tables of periods. */

const micros = (text: string): bigint => parseInstant(text, 'down') as bigint;

type Dense = {
  readonly from: string;
  readonly minutes: number;
  readonly secondsApart: number;
  readonly customers: number;
};

const it = base.extend<{
  /** Adds purchases in turn of these customers, at equal distances, and publishes them. */
  add: (dense: Dense) => Promise<void>;
  expectEqual: (read: (engine: PurchaseEngine) => Promise<{ result: unknown }>) => Promise<void>;
}>({
  add: async ({ database: { pool }, directory, organizationId, engine, openWorker }, use) => {
    const worker = await openWorker({ maxPurchasesWithoutBase: 0 });
    await use(async ({ from, minutes, secondsApart, customers }) => {
      const { rows } = await pool.query<{ id: bigint }>(
        `with added as (
           insert into customers (organization_id) select $1 from generate_series(1, $2::integer)
           returning id)
         select id from added order by id`,
        [organizationId, customers],
      );
      await pool.query(
        `insert into purchases
           (organization_id, customer_id, purchase_value_in_cents, created_at, payment_status)
         select $1, ($2::bigint[])[1 + n % $3], 100 + n, $4::timestamptz + n * $5 * interval '1 second',
           case when n % 2 = 0 then 'paid' end
         from generate_series(0, $6::integer) as n`,
        [
          organizationId,
          rows.map(({ id }) => id),
          customers,
          from,
          secondsApart,
          (60 * minutes) / secondsApart,
        ],
      );
      await worker.once([organizationId]);
      await untilShown(engine, directory, organizationId);
    });
  },
  expectEqual: async ({ database: { pool }, engine }, use) => {
    const postgres = createPostgresEngine(pool);
    await use(async (read) => {
      const { result } = await read(engine);
      expect(result).toEqual((await read(postgres)).result);
    });
  },
});

const day = 24 * 60;

it('the first cohort has the customers whose first purchase is within its period', async ({
  organizationId,
  add,
  expectEqual,
}) => {
  await add({ from: '2026-03-18T13:07:00Z', minutes: day, secondsApart: 40, customers: 90 });
  for (const interval of cohortIntervals) {
    for (const paymentStatuses of [undefined, ['paid'] as const]) {
      const query = { filters: { paymentStatuses }, interval, periods: 3 };
      await expectEqual((engine) => engine.cohorts(organizationId, query));
    }
  }
});

it('a series whose interval depends on the data has all of its purchases', async ({
  organizationId,
  add,
  expectEqual,
}) => {
  const query: PurchaseTimeSeriesQuery = {
    ...{ filters: {}, interval: 'auto', groupLimit: 1 },
    timeZone: 'Europe/Berlin',
  };
  const series = (engine: PurchaseEngine) => readPurchaseTimeSeries(engine, organizationId, query);
  await add({ from: '2026-03-27T00:00:00Z', minutes: 4 * day, secondsApart: 60, customers: 9 });
  await expectEqual(series);
  // The clocks change between these and the earlier ones: the table of days is longer now.
  await add({ from: '2026-03-31T00:01:00Z', minutes: 3 * day, secondsApart: 60, customers: 9 });
  await expectEqual(series);
  await expectEqual((engine) =>
    readPurchaseTimeSeries(engine, organizationId, {
      ...query,
      filters: { createdSince: micros('2026-03-29T00:00:00Z') },
    }),
  );
});

it('a customer counts in each day on which clocks go back over midnight', async ({
  organizationId,
  add,
  expectEqual,
}) => {
  // Clocks go back from 02:00 to 23:00 of the day before, when the purchases begin.
  await add({ from: '2010-03-04T15:00:00Z', minutes: day, secondsApart: 20, customers: 600 });
  const calendar = { interval: 'day', timeZone: 'Antarctica/Casey' } as const;
  const query = { ...calendar, filters: {}, groupLimit: 1 };
  await expectEqual((engine) => readPurchaseTimeSeries(engine, organizationId, query));
});
