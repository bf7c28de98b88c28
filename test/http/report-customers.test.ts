import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test as it } from '../support/fixtures.ts';
import { addRow } from '../support/rows.ts';
import { expectRefusal } from './refusal.ts';
import { servedShop } from './served-shop.ts';

const path = '/v1/purchases/report?group_by=customer&measures=revenue_in_cents';

describe('a report by customer', () => {
  const shop = servedShop();
  const rowsOf = async (url: string) => (await shop.get(url)).json().rows;
  const store = async (values: Record<string, unknown>) => {
    const row = { organization_id: shop.organizationId, ...values };
    const id = await addRow(shop.database.pool, 'customers', row);
    await shop.add({ customer_id: id, purchase_value_in_cents: 500 });
    return id;
  };

  it('has the present names and addresses with expand=customer, and none without it', async () => {
    const id = await store({ name: 'Ana', email: 'ana@mail.example', phone: '+55 11 9' });
    await shop.add({ purchase_value_in_cents: 100 });
    await shop.publish();
    const [customer, another] = [id, shop.customerId].map((each) => encodeId('customer', each));
    const expanded = (name: string, email: string | null, phone: string | null) => [
      {
        ...{ customer, customer_name: name, customer_email: email, customer_phone: phone },
        revenue_in_cents: 500,
      },
      {
        ...{ customer: another, customer_name: null, customer_email: null, customer_phone: null },
        revenue_in_cents: 100,
      },
    ];
    await shop.database.pool.query(
      'update customers set name = null, email = null, phone = null where id = $1',
      [shop.customerId],
    );
    expect(await rowsOf(`${path}&expand=customer`)).toEqual(
      expanded('Ana', 'ana@mail.example', '+55 11 9'),
    );
    expect(await rowsOf(path)).toEqual([
      { customer, revenue_in_cents: 500 },
      { customer: another, revenue_in_cents: 100 },
    ]);
    // No response of the same purchases is reused.
    await shop.database.pool.query(
      `update customers set name = 'Bia', email = '', phone = '' where id = $1`,
      [id],
    );
    expect(await rowsOf(`${path}&expand=customer`)).toEqual(expanded('Bia', null, null));
  });

  it('has them as columns of each format, also without rows', async () => {
    await store({ name: 'Ana "A", da Silva', email: 'ana@mail.example' });
    await shop.publish();
    const byType = `${path.replace('customer', 'customer,customer_type')}&expand=customer`;
    const { body } = await shop.get(`${byType}&format=csv`);
    const [names, row] = body.split('\r\n');
    expect(names).toBe(
      'customer,customer_name,customer_email,customer_phone,customer_type,revenue_in_cents,currency,mixed_currencies',
    );
    expect(row).toMatch(/^cus_\w+,"Ana ""A"", da Silva",ana@mail.example,,new,500,/);
    const line = (await shop.get(`${byType}&format=ndjson`)).body;
    expect(JSON.parse(line)).toMatchObject({ customer_email: 'ana@mail.example' });
    const none = await shop.get(`${byType}&format=csv&created_until=1999-01-01T00:00:00Z`);
    expect(none.body).toBe(`${names}\r\n`);
  });

  it('refuses expand=customer without customers as rows', async () => {
    for (const url of [
      '/v1/purchases/report?expand=customer',
      '/v1/purchases/report?group_by=month&expand=customer',
      `${path}&expand=segment`,
    ]) {
      expectRefusal(await shop.get(url), 'validation_error', 'expand');
    }
  });
});
