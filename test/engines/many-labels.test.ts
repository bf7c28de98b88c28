import { join } from 'node:path';
import { expect } from 'vitest';
import { readPurchaseStats, readPurchaseTimeSeries } from '../../src/domain/purchase-stats.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { test as it } from '../support/fixtures.ts';
import { untilShown } from '../support/published.ts';
import { addOrganization } from '../support/shop.ts';
import { openEngines } from './store.ts';

const purchases = 3_000;
const customers = 1_500;

const changes = {
  'all purchases have another currency and most another payment status': `
    insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at,
      currency, payment_status)
    select customers.organization_id, customers.id, n, '2026-01-01'::timestamptz + n * interval '1 hour',
      'currency ' || n, case when n % 10 = 0 then 'paid' else 'status ' || n end
    from customers, generate_series(1, ${purchases / customers}) as each,
      lateral (select customers.id % ${customers} + ${customers} * each as n)
    where organization_id = (select max(id) from organizations)`,
  'statuses change': `update purchases set payment_status = case when payment_status = 'paid'
    then 'changed ' || id else 'paid' end where id % 7 = 0`,
  'two of the last currencies remain': `delete from purchases where currency not in
    ('currency 2900', 'currency 2910')`,
  'one of the last currencies remains': `update purchases set currency = 'currency 2900'`,
};

it('statistics of thousands of currencies, payment statuses and customers are those of Postgres', {
  tags: ['slow'],
}, async ({ database: { pool }, directory }) => {
  const organization = await addOrganization(pool);
  await pool.query(
    'insert into customers (organization_id) select $1 from generate_series(1, $2::int)',
    [organization, customers],
  );
  const postgres = createPostgresEngine(pool);
  const engines = await openEngines(pool, directory);
  for (const [name, statement] of Object.entries(changes)) {
    await pool.query(statement);
    for (const { engine, createWorker } of engines) {
      const worker = await createWorker({ maxPurchasesWithoutBase: 0 });
      await worker.once([organization]).finally(() => worker.close());
      await untilShown(engine, join(directory, 'duckdb'), organization);
      for (const paymentStatuses of [undefined, ['paid'], ['paid', 'refunded']] as const) {
        for (const groupBy of [undefined, 'currency', 'status'] as const) {
          const query = { filters: { paymentStatuses }, groupBy, groupLimit: 50 };
          const { result } = await readPurchaseStats(engine, organization, query);
          const expected = await readPurchaseStats(postgres, organization, query);
          expect(result, `${name}: ${JSON.stringify(query)}`).toEqual(expected.result);
          const series = { ...query, interval: 'week' as const };
          expect((await readPurchaseTimeSeries(engine, organization, series)).result).toEqual(
            (await readPurchaseTimeSeries(postgres, organization, series)).result,
          );
        }
      }
    }
  }
  for (const { close } of engines) await close();
});
