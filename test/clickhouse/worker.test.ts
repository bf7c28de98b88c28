import fc from 'fast-check';
import { describe } from 'vitest';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { addACent, addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { clickHouseTest as it } from './fixtures.ts';

describe('a worker', () => {
  it('publishes awkward purchases, and their changes', async ({
    database: { pool },
    newShop: { organizationId },
    sync,
    expectEqual,
  }) => {
    const customers = [
      await addCustomer(pool, organizationId),
      await addCustomer(pool, organizationId),
    ];
    const [purchases = []] = fc.sample(
      fc.array(awkwardPurchase(customers), { minLength: 150, maxLength: 150 }),
      1,
    );
    for (const purchase of purchases) await addPurchase(pool, organizationId, purchase);
    for (const text of ['\\', '\\N', '\b\f\r\v\n\t', "'\\t'", '\\\\N', '']) {
      const values = { order_number: text, utm_term: text, customer_id: customers[0] as bigint };
      await addPurchase(pool, organizationId, values);
    }
    await sync();
    await expectEqual();
    await pool.query(`${addACent} where organization_id = $1 and id % 3 = 0`, [organizationId]);
    await pool.query('delete from purchases where organization_id = $1 and id % 5 = 0', [
      organizationId,
    ]);
    const other = await addOrganization(pool);
    const customerOfOther = await addCustomer(pool, other);
    const move =
      'update purchases set organization_id = $2, customer_id = $3 where organization_id = $1';
    await pool.query(`${move} and id % 7 = 0`, [organizationId, other, customerOfOther]);
    await sync();
    await expectEqual();
    await pool.query(addACent);
    await pool.query(move, [other, organizationId, customers[1]]);
    await sync();
    await expectEqual();
  });
});
