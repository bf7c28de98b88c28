import { expect } from 'vitest';
import { readMappingStatus } from '../../src/postgres/mapping/mapping-status.ts';
import { createMappingRound } from '../../sync/mapping/mapping-round.ts';
import { log, it as smallShop, tables } from './small-shop.ts';

const it = smallShop
  .extend('round', ({ database }) => () => {
    const round = createMappingRound(database.pool, log);
    const { signal } = new AbortController();
    return { step: () => round.run({ isComparing: true, signal }), isDue: round.isComparisonDue };
  })
  .extend('comparison', ({ database }) => async () => {
    return (await readMappingStatus(database.pool))?.comparison;
  });

const shop = tables
  .replace(
    'create view mapped_customers',
    () => `create function store.value_of(bigint) returns bigint language sql return $1;
    create view mapped_customers`,
  )
  .replace('cents / divisor as', 'store.value_of(cents) as');
/** More rows than one step compares. */
const rows = `insert into store.clients (id) select 'c' || n from generate_series(1, 2500) as n`;

it('shows why all rows are compared, since when, and how many, until the end', async ({
  start,
  query,
  round,
  comparison,
}) => {
  await start(rows, shop);
  const untilCompared = async () => {
    const { step, isDue } = round();
    do await step();
    while (isDue() || (await comparison()) !== null);
  };
  await untilCompared();
  await query('analyze mapped_customer_numbers, mapped_purchase_numbers');
  for (const [change, reason] of [
    ['truncate store.emails', 'TRUNCATE of store.emails'],
    [
      'create or replace view mapped_purchases as select id as external_id, org as organization_id, client_id as customer_external_id, store.value_of(cents) as purchase_value_in_cents, timestamptz $$2026-01-01Z$$ as created_at, $$pending$$ as payment_status from store.orders',
      'a changed view',
    ],
    [
      'create or replace function store.value_of(bigint) returns bigint language sql return $1 + 1',
      'a replaced function',
    ],
    ['alter table store.orders disable trigger map_inserted', 'missing or changed triggers'],
    ['vacuum full store.orders', 'TRUNCATE or a rewritten table'],
    [
      `alter table store.emails rename client_id to client; insert into store.emails values ('c1', 'x')`,
      'a key of store.emails that fails',
    ],
  ] as const) {
    const [{ now }] = await query('select clock_timestamp() as now');
    await query(change);
    const { step } = round();
    do await step();
    while ((await comparison()) === null);
    const shown = await comparison();
    expect(shown, change).toMatchObject({
      reason: expect.stringContaining(reason),
      rows: 2000,
      expectedRows: 2500,
    });
    expect(shown?.since.getTime(), change).toBeGreaterThanOrEqual(now.getTime());
    expect(shown?.secondsLeft).toBeGreaterThan(0);
    await untilCompared();
    expect(await comparison()).toBeNull();
  }
});

it('shows no comparison of a worker that was killed', async ({
  start,
  query,
  round,
  comparison,
  map,
}) => {
  await start(rows);
  await map();
  await query('truncate store.emails');
  const killed = round();
  await killed.step();
  await killed.step();
  expect(await comparison()).not.toBeNull();
  await map();
  expect(await comparison()).toBeNull();
});
