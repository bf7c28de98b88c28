import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { addMembers, addRow } from '../support/rows.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

const it = test.extend('organizationOf', ({ database }) => async (purchase: bigint) => {
  const { rows } = await database.pool.query(
    'select organization_id, customer_id from purchases where id = $1',
    [purchase],
  );
  return rows[0];
});

describe('a purchase and its customer', () => {
  let [one, other]: [bigint, bigint] = [0n, 0n];
  let [customer, othersCustomer]: [bigint, bigint] = [0n, 0n];
  it.beforeAll(async ({ database }) => {
    [one, other] = [await addOrganization(database.pool), await addOrganization(database.pool)];
    customer = await addCustomer(database.pool, one);
    othersCustomer = await addCustomer(database.pool, other);
  });

  const refused = (constraint: string) => ({ code: '23503', constraint });

  it('are of the same organization: Postgres refuses a reference to another organization', async ({
    database,
  }) => {
    const add = addPurchase(database.pool, one, { customer_id: othersCustomer });
    await expect(add).rejects.toMatchObject(refused('customer_of_same_organization'));
    await expect(addPurchase(database.pool, 999n, { customer_id: customer })).rejects.toMatchObject(
      refused('customer_of_same_organization'),
    );
    const id = await addPurchase(database.pool, one, { customer_id: customer });
    for (const change of ['customer_id = $2', 'organization_id = $3']) {
      const update = `update purchases set ${change} where id = $1 and $2 > 0 and $3 > 0`;
      await expect(
        database.pool.query(update.replaceAll(/\$[23]/g, '$&::bigint'), [
          id,
          othersCustomer,
          other,
        ]),
      ).rejects.toMatchObject(refused('customer_of_same_organization'));
    }
  });

  it.for(['segment', 'tag'] as const)(
    'are of the same organization, like a %s and its customers',
    async (kind, { database }) => {
      const own = await addRow(database.pool, `${kind}s`, { organization_id: one });
      const others = await addRow(database.pool, `${kind}s`, { organization_id: other });
      await addMembers(database.pool, kind, one, own, [customer]);
      await expect(
        addMembers(database.pool, kind, one, own, [othersCustomer]),
      ).rejects.toMatchObject(refused('customer_of_same_organization'));
      await expect(addMembers(database.pool, kind, one, others, [customer])).rejects.toMatchObject(
        refused(`${kind}_of_same_organization`),
      );
    },
  );

  it('move to another organization in one statement: the purchase alone, or both', async ({
    database,
    organizationOf,
  }) => {
    const moving = await addCustomer(database.pool, one);
    const alone = await addPurchase(database.pool, one, { customer_id: moving });
    const along = await addPurchase(database.pool, one, { customer_id: moving });
    await database.pool.query(
      'update purchases set organization_id = $2, customer_id = $3 where id = $1',
      [alone, other, othersCustomer],
    );
    expect(await organizationOf(alone)).toEqual({
      organization_id: other,
      customer_id: othersCustomer,
    });
    const move = 'update customers set organization_id = $2 where id = $1';
    await expect(database.pool.query(move, [moving, other])).rejects.toMatchObject(
      refused('customer_of_same_organization'),
    );
    await database.pool.query(
      `with moved as (${move} returning id, organization_id)
       update purchases set organization_id = moved.organization_id
       from moved where customer_id = moved.id`,
      [moving, other],
    );
    expect(await organizationOf(along)).toEqual({ organization_id: other, customer_id: moving });
  });

  it('are deleted together, and with their organization', async ({ database }) => {
    const organization = await addOrganization(database.pool);
    const [first, second] = [
      await addCustomer(database.pool, organization),
      await addCustomer(database.pool, organization),
    ];
    for (const customer_id of [first, second]) {
      await addPurchase(database.pool, organization, { customer_id });
    }
    for (const kind of ['segment', 'tag'] as const) {
      const id = await addRow(database.pool, `${kind}s`, { organization_id: organization });
      await addMembers(database.pool, kind, organization, id, [first, second]);
    }
    const left = async () => {
      const { rows } = await database.pool.query(
        `select (select count(*) from purchases where organization_id = $1) as purchases,
           (select count(*) from segment_customers where organization_id = $1)
           + (select count(*) from customer_tags where organization_id = $1) as links`,
        [organization],
      );
      return rows[0];
    };
    await database.pool.query('delete from customers where id = $1', [first]);
    expect(await left()).toEqual({ purchases: 1n, links: 2n });
    await database.pool.query('delete from organizations where id = $1', [organization]);
    expect(await left()).toEqual({ purchases: 0n, links: 0n });
  });
});
