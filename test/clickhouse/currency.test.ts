import { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import type { Generation } from '../../src/engines/clickhouse/relations.ts';
import { purchaseStats } from '../../src/engines/clickhouse/stats.ts';
import { addACent, addPurchase } from '../support/shop.ts';
import { clickHouseTest } from './fixtures.ts';

const it = clickHouseTest
  .extend(
    'newest',
    ({ clickhouse, newShop: { organizationId } }) =>
      () =>
        newestGeneration(clickhouse, organizationId, undefined),
  )
  .extend('totals', ({ clickhouse, newest }) => async (filters: PurchaseFilters = {}) => {
    const query = { filters, groupBy: undefined, groupLimit: 1, timeZone: undefined };
    const generation = (await newest()) as Generation;
    return purchaseStats(clickhouse, generation, query, undefined);
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
    newest,
    totals,
    setCurrency,
  }) => {
    const [first] = [await add('BRL', 1), await add('BRL', 2)];
    await sync();
    expect((await newest())?.currency).toBe('BRL');
    expect(await totals()).toMatchObject(brl);
    expect(await totals({ minValueInCents: 3n })).toMatchObject({ ...none, purchaseCount: 0n });

    await pool.query(`${addACent} where organization_id = $1`, [organizationId]);
    await sync();
    expect((await newest())?.currency).toBe('BRL');
    expect(await totals()).toMatchObject(brl);

    for (const [currency, known, expected, ofFirst] of [
      [null, 'BRL', brl, none],
      ['USD', null, mixed, { currency: 'USD', mixedCurrencies: false }],
      [null, null, brl, none],
    ] as const) {
      await setCurrency(currency, first);
      await sync();
      expect((await newest())?.currency).toBe(known);
      expect(await totals()).toMatchObject(expected);
      expect(await totals({ maxValueInCents: 2n })).toMatchObject(ofFirst);
    }

    await sync({ maxDeltaRows: 1 });
    expect(await newest()).toMatchObject({ currency: 'BRL', withoutCurrency: 1n, batches: [] });
    expect(await totals()).toMatchObject(brl);
    expect(await totals({ maxValueInCents: 2n })).toMatchObject(none);
  });

  it('has the currencies of its load', async ({ add, sync, newest, totals }) => {
    const load = () => sync({ maxDeltaRows: 0 });
    await add(null);
    await load();
    expect(await newest()).toMatchObject({ currency: null, withoutCurrency: 1n });
    expect(await totals()).toMatchObject(none);
    await add('BRL');
    await load();
    expect(await newest()).toMatchObject({ currency: 'BRL', withoutCurrency: 1n, batches: [] });
    expect(await totals()).toMatchObject(brl);
    await add('USD');
    await load();
    expect(await newest()).toMatchObject({ currency: null, batches: [] });
    expect(await totals()).toMatchObject(mixed);
  });

  it('stays readable, and is followed by others, after an upgrade that adds the column', async ({
    database: { pool },
    newShop: { organizationId },
    clickhouse,
    add,
    sync,
    generation,
    newest,
    totals,
    expectEqual,
  }) => {
    await add('BRL');
    await sync();
    const { load } = await generation();
    // The table of the earlier release.
    await clickhouse.run(
      raw('alter table generation drop column currency, drop column without_currency'),
    );
    expect(await newest()).toBe(null);
    await sync();
    expect(await newest()).toMatchObject({ loadId: load, currency: null });
    expect(await totals()).toMatchObject(brl);
    await pool.query(`${addACent} where organization_id = $1`, [organizationId]);
    await sync();
    expect(await newest()).toMatchObject({ loadId: load, currency: null });
    await expectEqual();
  });
});
