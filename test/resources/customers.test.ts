import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { type Item, readIds, readPages } from '../support/paging.ts';
import { addMembers, addRow, withoutForeignKeys } from '../support/rows.ts';
import { createTwoShops, type TwoShops } from '../support/two-shops.ts';

let shops: TwoShops;
beforeAll(async () => {
  shops = await createTwoShops();
});
afterAll(() => shops.close());

const addCustomer = (values: Record<string, unknown>, organizationId = shops.organizationId) =>
  addRow(shops.database.pool, 'customers', { organization_id: organizationId, ...values });
const publicId = (id: bigint) => encodeId('customer', id);
const getCustomer = async (id: bigint) => {
  const response = await shops.api.get(`/v1/customers/${publicId(id)}`, shops.secret);
  expect(response.statusCode, response.body).toBe(200);
  return response.json<Item>();
};

describe('a customer', () => {
  let id: bigint;
  let tagIds: bigint[];
  const inList = () => ({
    object: 'customer',
    id: publicId(id),
    created_at: '2024-01-02T03:04:05.678901Z',
    updated_at: '2025-01-02T03:04:05.000001Z',
    html_url: `https://app.example/customers/${publicId(id)}`,
    name: 'Zoë "Z" Ünal\n',
    email: 'Zoe@Example.com',
    phone: '+55 (21) 90074-2803',
    source: 'popup',
    is_subscribed: true,
    is_subscribed_to_email: false,
    total_spent_in_cents: 12_345,
    total_orders: 2,
    first_purchase_date: '2024-02-01T00:00:00.000000Z',
    last_purchase_date: '1969-12-31T23:59:59.999999Z',
  });

  beforeAll(async () => {
    id = await addCustomer({
      created_at: '2024-01-02T00:04:05.678901-03:00',
      updated_at: '2025-01-02T03:04:05.000001Z',
      name: 'Zoë "Z" Ünal\n',
      email: 'Zoe@Example.com',
      phone: '+55 (21) 90074-2803',
      source: 'popup',
      is_subscribed: true,
      is_subscribed_to_email: false,
      total_spent_in_cents: 12_345,
      total_orders: 2,
      first_purchase_date: '2024-02-01T00:00:00Z',
      last_purchase_date: '1969-12-31T23:59:59.999999Z',
      identification: '123.456.789-00',
      default_address: { id: '7', street: 'Rua A', number: '1', zip_code: '01000-000' },
      attributes: { size: 'M', points: 12.5, vip: false, nothing: null, list: [1, null] },
    });
    tagIds = [];
    for (const name of ['vip', null]) {
      const organization_id = shops.organizationId;
      tagIds.push(await addRow(shops.database.pool, 'tags', { organization_id, name }));
    }
    for (const tagId of tagIds) {
      await addMembers(shops.database.pool, 'tag', shops.organizationId, tagId, [id]);
    }
    const foreignTag = await addRow(shops.database.pool, 'tags', {
      organization_id: shops.otherOrganizationId,
      name: 'foreign',
    });
    await withoutForeignKeys(shops.database.pool, (connection) =>
      addMembers(connection, 'tag', shops.organizationId, foreignTag, [id]),
    );
  });

  it('has in lists the fields of both shapes and no other', async () => {
    const items = (await readPages(shops.api, shops.secret, '/v1/customers', 100)).flat();
    expect(items.find((item) => item.id === publicId(id))).toStrictEqual(inList());
  });

  it('has alone its tags, attributes, identification and address as well', async () => {
    expect(await getCustomer(id)).toStrictEqual({
      ...inList(),
      // Its own organization's; the one without a name shows none.
      tags: [
        { id: encodeId('tag', tagIds[0] as bigint), name: 'vip' },
        { id: encodeId('tag', tagIds[1] as bigint) },
      ],
      attributes: { size: 'M', points: 12.5, vip: false, list: [1, null] },
      identification: '123.456.789-00',
      default_address: { id: '7', street: 'Rua A', number: '1', zip_code: '01000-000' },
    });
  });

  it('leaves out what has no value', async () => {
    const bare = await addCustomer({
      created_at: '2024-01-02T03:04:05Z',
      updated_at: '2024-01-02T03:04:05Z',
    });
    expect(await getCustomer(bare)).toStrictEqual({
      object: 'customer',
      id: publicId(bare),
      created_at: '2024-01-02T03:04:05.000000Z',
      updated_at: '2024-01-02T03:04:05.000000Z',
      html_url: `https://app.example/customers/${publicId(bare)}`,
      is_subscribed: false,
      is_subscribed_to_email: false,
      total_spent_in_cents: 0,
      total_orders: 0,
      tags: [],
    });
  });

  it('writes every cent of an amount that no double can hold', async () => {
    const rich = await addCustomer({ total_spent_in_cents: '9007199254740993' });
    const response = await shops.api.get(`/v1/customers/${publicId(rich)}`, shops.secret);
    expect(response.body).toContain('"total_spent_in_cents":9007199254740993,');
  });

  it('shows of a stored address its documented texts and nothing else', async () => {
    const odd = await addCustomer({
      default_address: {
        id: 7,
        street: null,
        number: ['1'],
        city: { name: 'x' },
        state: true,
        country: 'BR',
        secret: 'hidden',
        toString: 'hidden',
      },
    });
    expect((await getCustomer(odd)).default_address).toStrictEqual({ id: '7', country: 'BR' });
  });

  it('shows attributes of any name and any JSON value', async () => {
    const stored =
      '{"__proto__": {"a": 1}, "constructor": "c", "": "empty", "ключ": "é\\u2028", "deep": {"a": [{"b": null}]}, "gone": null, "toJSON": 1}';
    const odd = await addCustomer({ attributes: stored });
    const response = await shops.api.get(`/v1/customers/${publicId(odd)}`, shops.secret);
    const { gone, ...rest } = JSON.parse(stored);
    expect(gone).toBeNull();
    expect(response.json().attributes).toStrictEqual(rest);
    const empty = await addCustomer({ attributes: '{}', default_address: '{}' });
    expect(await getCustomer(empty)).toMatchObject({ attributes: {}, default_address: {} });
  });

  it('changes its ETag with its content', async () => {
    const changing = await addCustomer({ total_orders: 2 });
    const url = `/v1/customers/${publicId(changing)}`;
    const before = (await shops.api.get(url, shops.secret)).headers.etag;
    await shops.database.pool.query('update customers set total_orders = 3 where id = $1', [
      changing,
    ]);
    expect((await shops.api.get(url, shops.secret)).headers.etag).not.toBe(before);
  });
});

describe('the filters of the customer list', () => {
  let filtered: TwoShops;
  const ids: Record<string, bigint> = {};
  const matching = async (query: string, secret = filtered.secret) =>
    (await readIds(filtered.api, secret, `/v1/customers?${query}`)).map(
      (found) => Object.keys(ids).find((name) => publicId(ids[name] as bigint) === found) ?? found,
    );
  const refusal = async (query: string) => {
    const response = await filtered.api.get(`/v1/customers?${query}`, filtered.secret);
    return { status: response.statusCode, ...response.json().error };
  };
  const relations: Record<string, bigint> = {};

  beforeAll(async () => {
    filtered = await createTwoShops();
    const { database, organizationId, otherOrganizationId } = filtered;
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
      total_spent_in_cents: 5,
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
      const everybody = Object.values(ids);
      const some = [ids.early, ids.late, ids.foreign] as bigint[];
      await withoutForeignKeys(database.pool, async (connection) => {
        await addMembers(connection, relation, organizationId, own, some);
        await addMembers(connection, relation, otherOrganizationId, foreign, everybody);
      });
    }
  });
  afterAll(() => filtered.close());

  it('take subscribed customers, or those who are not', async () => {
    expect(await matching('is_subscribed=true')).toEqual(['late', 'early']);
    expect(await matching('is_subscribed=false')).toEqual(['middle']);
    for (const value of ['1', 'TRUE', 'yes', '']) {
      expect(await refusal(`is_subscribed=${value}`)).toMatchObject({
        status: 422,
        param: 'is_subscribed',
      });
    }
  });

  it('bound creation and update inclusively, to the microsecond and across offsets', async () => {
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

  it('refuse what is no instant', async () => {
    for (const name of ['created_since', 'created_until', 'updated_since']) {
      for (const value of ['2026-02-30T00:00:00Z', 'yesterday', '2026-01-01', '']) {
        expect(await refusal(`${name}=${value}`)).toMatchObject({ status: 422, param: name });
      }
    }
  });

  it('find an email address whole, whatever its case', async () => {
    expect(await matching('email=EARLY@example.COM')).toEqual(['middle', 'early']);
    expect(await matching('email=arly@example.com')).toEqual([]);
    expect(await matching('email=early@example.co_')).toEqual([]);
    expect(await matching('email=%25')).toEqual([]);
    expect(await refusal('email=')).toMatchObject({ status: 422, param: 'email' });
    expect(await refusal('email=a%00b')).toMatchObject({ status: 422, param: 'email' });
  });

  it('find a phone by its digits, however they are punctuated', async () => {
    expect(await matching('phone=%2B55%2011%209%208888-7777')).toEqual(['early']);
    expect(await matching('phone=888-7777')).toEqual(['middle']);
    expect(await matching('phone=88.877.770')).toEqual(['late']);
  });

  it('find a phone with or without its country code, whichever number lacks it', async () => {
    const { database, otherOrganizationId, otherSecret } = filtered;
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
  });

  it('find no phone by a part of it, nor by more digits than a country code has', async () => {
    expect(await matching('phone=777')).toEqual([]);
    expect(await matching('phone=8887777')).toEqual(['middle']);
    expect(await matching('phone=88887777')).toEqual([]);
    expect(await matching('phone=98888')).toEqual([]);
    expect(await matching('phone=0988887777')).toEqual([]);
    expect(await matching('phone=00005511988887777')).toEqual([]);
    expect(await matching('phone=558887777')).toEqual([]);
  });

  it('refuse a phone that is too short, too long or without a digit', async () => {
    for (const value of ['77', '', '1'.repeat(33), 'abc', '%25%25%25', '___', '١٢٣']) {
      expect(await refusal(`phone=${encodeURI(value).replaceAll('%25', '%')}`)).toMatchObject({
        type: 'validation_error',
        param: 'phone',
      });
    }
    expect(await matching(`phone=${'1'.repeat(32)}`)).toEqual([]);
  });

  it.each(['tag', 'segment'] as const)('take the customers of a %s', async (relation) => {
    const by = (name: string) => `${relation}_id=${encodeId(relation, relations[name] as bigint)}`;
    expect(await matching(by(relation))).toEqual(['late', 'early']);
    expect(await matching(`${by(relation)}&sort=updated`)).toEqual(['early', 'late']);
    expect(await matching(by(`empty ${relation}`))).toEqual([]);
    // Although members are stored with it.
    expect(await matching(by(`foreign ${relation}`))).toEqual([]);
    expect(await matching(by(relation), filtered.otherSecret)).toEqual([]);
    expect(await matching(`${relation}_id=${encodeId(relation, 10n ** 9n)}`)).toEqual([]);
    expect(await refusal(`${relation}_id=cus_1`)).toMatchObject({
      status: 422,
      param: `${relation}_id`,
    });
  });

  it('apply together', async () => {
    const tag = `tag_id=${encodeId('tag', relations.tag as bigint)}`;
    const segment = `segment_id=${encodeId('segment', relations.segment as bigint)}`;
    const all = `is_subscribed=true&phone=11988887777&email=early@example.com&q=EARL&${tag}&${segment}`;
    expect(await matching(`${all}&created_until=2026-01-01T01:00:00Z`)).toEqual(['early']);
    expect(await matching(`${all}&created_since=2026-01-01T01:00:00Z`)).toEqual([]);
  });

  it('do not apply to the cursor', async () => {
    const after = `starting_after=${publicId(ids.late as bigint)}`;
    expect(await matching(`is_subscribed=false&${after}`)).toEqual(['middle']);
    expect(await matching(`sort=total_spent&${after}`)).toEqual(['middle', 'early']);
  });

  it('say nothing of a cursor of another organization', async () => {
    expect(await refusal(`starting_after=${publicId(ids.foreign as bigint)}`)).toMatchObject({
      status: 400,
      type: 'invalid_request',
      param: 'starting_after',
    });
  });
});
