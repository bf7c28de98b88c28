import { describe, expect } from 'vitest';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { purchaseStats } from '../../src/engines/clickhouse/stats.ts';
import { addACent, addPurchase } from '../support/shop.ts';
import { clickHouseTest } from './fixtures.ts';

const it = clickHouseTest
  .extend('totals', ({ clickhouse, generation }) => async (filters: PurchaseFilters = {}) => {
    const query = { filters, groupBy: undefined, groupLimit: 1, timeZone: undefined };
    return purchaseStats(clickhouse, await generation(), query, undefined);
  })
  .extend(
    'add',
    ({ database, newShop, newCustomerId }) =>
      (currency: string | null, cents = 100) =>
        addPurchase(database.pool, newShop.organizationId, {
          customer_id: newCustomerId,
          purchase_value_in_cents: cents,
          currency,
        }),
  )
  .extend('setCurrency', ({ database, newShop }) => async (currency: string | null, id: bigint) => {
    await database.pool.query(
      'update purchases set currency = $3 where organization_id = $1 and id = $2',
      [newShop.organizationId, id, currency],
    );
  });

const brl = { currency: 'BRL', mixedCurrencies: false };
const none = { currency: null, mixedCurrencies: false };
const mixed = { currency: null, mixedCurrencies: true };

describe('a generation', () => {
  it('has a currency as long as no purchase has another one', async ({
    database: { pool },
    newShop: { organizationId },
    add,
    sync,
    generation,
    totals,
    setCurrency,
  }) => {
    const [first] = [await add('BRL', 1), await add('BRL', 2)];
    await sync();
    expect((await generation()).currency).toBe('BRL');
    expect(await totals()).toMatchObject(brl);
    expect(await totals({ minValueInCents: 3n })).toMatchObject({ ...none, purchaseCount: 0n });

    await pool.query(`${addACent} where organization_id = $1`, [organizationId]);
    await sync();
    expect((await generation()).currency).toBe('BRL');
    expect(await totals()).toMatchObject(brl);

    for (const [currency, known, expected, ofFirst] of [
      [null, 'BRL', brl, none],
      ['USD', null, mixed, { currency: 'USD', mixedCurrencies: false }],
      [null, null, brl, none],
    ] as const) {
      await setCurrency(currency, first);
      await sync();
      expect((await generation()).currency).toBe(known);
      expect(await totals()).toMatchObject(expected);
      expect(await totals({ maxValueInCents: 2n })).toMatchObject(ofFirst);
    }

    await sync({ maxLogRecords: 1 });
    const compacted = { currency: 'BRL', withoutCurrency: 1n, writers: [] };
    expect(await generation()).toMatchObject(compacted);
    expect(await totals()).toMatchObject(brl);
    expect(await totals({ maxValueInCents: 2n })).toMatchObject(none);
  });

  it('has the currencies of its load', async ({ add, sync, generation, totals }) => {
    const load = () => sync({ maxLogRecords: 0 });
    await add(null);
    await load();
    expect(await generation()).toMatchObject({ currency: null, withoutCurrency: 1n });
    expect(await totals()).toMatchObject(none);
    await add('BRL');
    await load();
    expect(await generation()).toMatchObject({
      currency: 'BRL',
      withoutCurrency: 1n,
      writers: [],
    });
    expect(await totals()).toMatchObject(brl);
    await add('USD');
    await load();
    expect(await generation()).toMatchObject({ currency: null, writers: [] });
    expect(await totals()).toMatchObject(mixed);
  });
});
