import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test } from '../support/fixtures.ts';
import { readIds } from '../support/paging.ts';
import { addMembers, addRow, withoutForeignKeys } from '../support/rows.ts';

const publicId = (id: bigint) => encodeId('customer', id);

describe('the filters of the customer list', () => {
  const ids: Record<string, bigint> = {};

  const it = test.extend(
    'matching',
    ({ api, shop }) =>
      async (query: string, secret = shop.secret) =>
        (await readIds(api, secret, `/v1/customers?${query}`)).map(
          (found) =>
            Object.keys(ids).find((name) => publicId(ids[name] as bigint) === found) ?? found,
        ),
  );

  const relations: Record<string, bigint> = {};

  it.beforeAll(async ({ database, shop, otherShop }) => {
    const { organizationId } = shop;
    const { organizationId: otherOrganizationId } = otherShop;
    const add = async (name: string, organization: bigint, values: Record<string, unknown>) => {
      const row = { organization_id: organization, name, ...values };
      ids[name] = await addRow(database.pool, 'customers', row);
    };
    await add('early', organizationId, {
      created_at: '2026-01-01T00:00:00.000001Z',
      updated_at: '2026-05-01T00:00:00Z',
      email: 'Early@Example.com',
      phone: '+55 11 98888-7777',
      is_subscribed: true,
      total_orders: 2,
      total_spent_in_cents: 3,
      first_purchase_date: '2026-01-01T00:00:00Z',
      last_purchase_date: '2026-02-01T00:00:00.000001Z',
    });
    await add('middle', organizationId, {
      created_at: '2026-01-02T00:00:00Z',
      updated_at: '2026-04-01T00:00:00.000001Z',
      email: 'early@example.com',
      phone: '8887777',
      total_spent_in_cents: 5,
    });
    await add('late', organizationId, {
      created_at: '2026-01-03T00:00:00Z',
      updated_at: '2026-03-01T00:00:00Z',
      email: 'ÉARLY@example.com',
      phone: 'ext. 88-87-77-7, 0',
      is_subscribed: true,
      total_orders: 3,
      total_spent_in_cents: 5,
      first_purchase_date: '2026-01-02T00:00:00Z',
      last_purchase_date: '2026-03-01T00:00:00Z',
    });
    await add('foreign', otherOrganizationId, {
      created_at: '2026-01-02T00:00:00Z',
      email: 'early@example.com',
      phone: '+5511988887777',
      is_subscribed: true,
    });
    for (const relation of ['tag', 'segment'] as const) {
      for (const [name, organization] of [
        [relation, organizationId],
        [`empty ${relation}`, organizationId],
        [`foreign ${relation}`, otherOrganizationId],
      ] as const) {
        const row = { organization_id: organization, name };
        relations[name] = await addRow(database.pool, `${relation}s`, row);
      }
      const own = relations[relation] as bigint;
      const foreign = relations[`foreign ${relation}`] as bigint;
      const allCustomers = Object.values(ids);
      const some = [ids.early, ids.late, ids.foreign] as bigint[];
      await withoutForeignKeys(database.pool, async (connection) => {
        await addMembers(connection, relation, organizationId, own, some);
        await addMembers(connection, relation, otherOrganizationId, foreign, allCustomers);
      });
    }
  });
  it('select customers by subscription', async ({ matching }) => {
    expect(await matching('is_subscribed=true')).toEqual(['late', 'early']);
    expect(await matching('is_subscribed=false')).toEqual(['middle']);
  });

  it('bound creation and update inclusively, to the microsecond and across offsets', async ({
    matching,
  }) => {
    expect(await matching('created_since=2026-01-01T00:00:00.000001Z')).toHaveLength(3);
    expect(await matching('created_since=2026-01-01T00:00:00.0000011Z')).toEqual([
      'late',
      'middle',
    ]);
    expect(await matching('created_until=2026-01-01T00:00:00.0000019Z')).toEqual(['early']);
    expect(await matching('created_until=2026-01-01T00:00:00Z')).toEqual([]);
    expect(
      await matching(
        'created_since=2026-01-02T03:00:00%2B03:00&created_until=2026-01-02T00:00:00Z',
      ),
    ).toEqual(['middle']);
    expect(await matching('updated_since=2026-04-01T00:00:00.000001Z')).toEqual([
      'middle',
      'early',
    ]);
    expect(await matching('updated_since=2026-04-01T00:00:00.000002Z')).toEqual(['early']);
  });

  it('bound the totals inclusively, and dates of purchases only of customers who bought', async ({
    matching,
  }) => {
    const expected = {
      'total_orders_min=2': ['late', 'early'],
      'total_orders_max=2': ['middle', 'early'],
      'total_orders_min=2&total_orders_max=2': ['early'],
      'total_orders_max=0': ['middle'],
      'total_spent_min_in_cents=5': ['late', 'middle'],
      'total_spent_max_in_cents=4': ['early'],
      'total_spent_min_in_cents=4&total_spent_max_in_cents=4': [],
      'first_purchase_since=2026-01-02T00:00:00Z': ['late'],
      'first_purchase_until=2026-01-02T00:00:00Z': ['late', 'early'],
      'last_purchase_since=2026-02-01T00:00:00.000001Z': ['late', 'early'],
      'last_purchase_since=2026-02-01T00:00:00.0000011Z': ['late'],
      'last_purchase_until=2026-02-01T00:00:00.0000019Z': ['early'],
      'last_purchase_until=2026-02-01T00:00:00Z': [],
      'total_orders_min=2&last_purchase_until=2026-02-15T00:00:00Z': ['early'],
      'total_orders_min=1&q=early&last_purchase_until=2026-02-15T00:00:00Z': ['early'],
      'total_orders_min=3&q=early': ['late'],
      'is_subscribed=true&total_spent_max_in_cents=3': ['early'],
    };
    for (const [query, names] of Object.entries(expected)) {
      expect(await matching(query), query).toEqual(names);
    }
    expect(await matching('total_orders_max=3&sort=total_spent')).toEqual([
      'late',
      'middle',
      'early',
    ]);
  });

  it.for(['tag', 'segment'] as const)(
    'select by totals the customers of a %s',
    async (relation, { matching }) => {
      const of = `${relation}_id=${encodeId(relation, relations[relation] as bigint)}`;
      for (const [query, names] of [
        [`${of}&total_orders_min=3`, ['late']],
        [`${of}&last_purchase_until=2026-02-15T00:00:00Z&sort=updated`, ['early']],
        [`${of}&total_orders_max=0`, []],
        [
          `${relation}_id=${encodeId(relation, relations[`foreign ${relation}`] as bigint)}&total_orders_min=0`,
          [],
        ],
      ] as const) {
        expect(await matching(query), query).toEqual(names);
      }
    },
  );

  it('find a whole email address, case-insensitively', async ({ matching }) => {
    expect(await matching('email=EARLY@example.COM')).toEqual(['middle', 'early']);
    expect(await matching('email=arly@example.com')).toEqual([]);
    expect(await matching('email=early@example.co_')).toEqual([]);
    expect(await matching('email=%25')).toEqual([]);
  });

  it('find an address with a plus, encoded or not', async ({ database, matching }) => {
    const rename = (from: string, to: string) =>
      database.pool.query('update customers set email = $2 where email = $1', [from, to]);
    await rename('Early@Example.com', 'a+b@example.com');
    for (const email of ['a+b@example.com', 'a%2Bb@example.com', 'a%20b@example.com']) {
      expect(await matching(`email=${email}`)).toHaveLength(1);
    }
    await rename('a+b@example.com', 'Early@Example.com');
  });

  it('find a phone by its digits, however they are punctuated', async ({ matching }) => {
    expect(await matching('phone=%2B55%2011%209%208888-7777')).toEqual(['early']);
    expect(await matching('phone=888-7777')).toEqual(['late', 'middle', 'early']);
    expect(await matching('phone=88.877.770')).toEqual(['late']);
  });

  it('find a phone with or without its country code, stored or sent', async ({
    database,
    otherShop,
    matching,
  }) => {
    const { organizationId: otherOrganizationId, secret: otherSecret } = otherShop;
    const stored = ['+55 21 91234-5678', '(21) 91234-5678', '+351 21 91234-5678'] as const;
    for (const phone of stored) {
      const row = { organization_id: otherOrganizationId, phone };
      ids[phone] = await addRow(database.pool, 'customers', row);
    }
    const [withCode, national, otherCode] = stored;
    const found = (phone: string) => matching(`phone=${encodeURIComponent(phone)}`, otherSecret);
    expect(await found('21 91234 5678')).toEqual([otherCode, national, withCode]);
    expect(await found('+5521912345678')).toEqual([national, withCode]);
    expect(await found('+351 21 91234-5678')).toEqual([otherCode, national]);
    expect(await found('+49 21 91234-5678')).toEqual([national]);
    // A trunk zero, sent or stored.
    expect(await found('(021) 91234-5678')).toEqual([otherCode, national, withCode]);
    const phone = '(031) 91234-5678';
    ids[phone] = await addRow(database.pool, 'customers', {
      organization_id: otherOrganizationId,
      phone,
    });
    for (const sent of ['+55 31 91234-5678', '31 91234 5678', '031 91234 5678']) {
      expect(await found(sent)).toEqual([phone]);
    }
  });

  it('find a phone by a part of it, whatever is between its digits', async ({ matching }) => {
    for (const parameter of ['phone', 'q']) {
      const found = (text: string) => matching(`${parameter}=${encodeURIComponent(text)}`);
      expect(await found('777')).toEqual(['late', 'middle', 'early']);
      expect(await found('888.7777')).toEqual(['late', 'middle', 'early']);
      expect(await found('98888-7777')).toEqual(['early']);
      expect(await found('(11) 98888')).toEqual(['early']);
      expect(await found('98 88')).toEqual(['early']);
      expect(await found('0988887777')).toEqual(['early']);
    }
  });

  it('find no phone by more digits than a country code has, or by digits in another order', async ({
    matching,
  }) => {
    expect(await matching('phone=00005511988887777')).toEqual([]);
    expect(await matching('phone=558887777')).toEqual([]);
    expect(await matching('phone=88889')).toEqual([]);
  });

  it.for(['tag', 'segment'] as const)(
    'select the customers of a %s',
    async (relation, { otherShop, matching }) => {
      const by = (name: string) =>
        `${relation}_id=${encodeId(relation, relations[name] as bigint)}`;
      expect(await matching(by(relation))).toEqual(['late', 'early']);
      expect(await matching(`${by(relation)}&sort=updated`)).toEqual(['early', 'late']);
      expect(await matching(by(`empty ${relation}`))).toEqual([]);
      // The foreign segment or tag has members of this organization too.
      expect(await matching(by(`foreign ${relation}`))).toEqual([]);
      expect(await matching(by(relation), otherShop.secret)).toEqual([]);
      expect(await matching(`${relation}_id=${encodeId(relation, 10n ** 9n)}`)).toEqual([]);
    },
  );

  it('apply together', async ({ matching }) => {
    const tag = `tag_id=${encodeId('tag', relations.tag as bigint)}`;
    const segment = `segment_id=${encodeId('segment', relations.segment as bigint)}`;
    const all = `is_subscribed=true&phone=11988887777&email=early@example.com&q=EARL&${tag}&${segment}`;
    expect(await matching(`${all}&created_until=2026-01-01T01:00:00Z`)).toEqual(['early']);
    expect(await matching(`${all}&created_since=2026-01-01T01:00:00Z`)).toEqual([]);
  });

  it('do not apply to the cursor', async ({ matching }) => {
    const after = `starting_after=${publicId(ids.late as bigint)}`;
    expect(await matching(`is_subscribed=false&${after}`)).toEqual(['middle']);
    expect(await matching(`sort=total_spent&${after}`)).toEqual(['middle', 'early']);
  });
});
