import { describe, expect, test as it } from 'vitest';
import { createRecordedLog } from './support/logged-lines.ts';
import { createTestDatabase, type TestDatabase } from './support/postgres.ts';
import { runProgram } from './support/program.ts';
import { addRow } from './support/rows.ts';
import { addKey, addOrganization, addPurchase } from './support/shop.ts';

/** A database of a shop, and the texts that no log may contain. */
async function createShop() {
  const database = await createTestDatabase();
  const { pool } = database;
  const organization_id = await addOrganization(pool);
  const { secret } = await addKey(pool, organization_id);
  const customer = {
    name: 'Maria "Lia" Quintanilha',
    email: 'LIA@quintanilha',
    phone: '5511900000001',
    default_address: { street: 'Rua Augusta, 1' },
  };
  const customer_id = await addRow(pool, 'customers', { organization_id, ...customer });
  await addPurchase(pool, organization_id, { customer_id, order_number: 'PED-2207' });
  return { database, secret, customer };
}

type PlantedShop = Awaited<ReturnType<typeof createShop>>;
const leaks: [string, (shop: PlantedShop) => unknown][] = [
  ['the secret of a key', ({ secret }) => secret],
  ['a secret without its prefix', ({ secret }) => secret.slice('crm_live_'.length)],
  ['the bytes of a secret', ({ secret }) => Buffer.from(secret)],
  ['a secret of another database', () => `crm_live_${'x'.repeat(40)}`],
  ['the password of Postgres', ({ database }) => new URL(database.url).password],
  ['a name', ({ customer }) => ({ q: customer.name })],
  ['an email', ({ customer }) => customer.email],
  ['an email of no customer', () => 'nobody@shop.example'],
  ['a phone number', ({ customer }) => Number(customer.phone)],
  ['a part of an address', ({ customer }) => customer.default_address.street],
  ['an order number', () => '/v1/purchases?order_number=PED-2207'],
];

/** Removes the database, which searches the lines. */
const drop = async (database: TestDatabase) =>
  database.drop().then(
    () => 'nothing is found',
    (error: Error) => error.message,
  );

describe('a test whose service logs', () => {
  it.for(leaks)('%s fails', async ([_name, leakOf]) => {
    const shop = await createShop();
    createRecordedLog().trace({ value: leakOf(shop) }, 'a leak');
    expect(await drop(shop.database)).toMatch(/^1 lines of logs and metrics.*\n.*a leak/);
  });

  it('personal data in a program fails', async () => {
    const { database, customer } = await createShop();
    await runProgram('test/support/log-a-value.ts', [customer.name], {}).exited();
    expect(await drop(database)).toMatch(/^1 lines of logs and metrics.*\n.*a leak/);
  });

  it('requests, their statuses and ids passes', async () => {
    const { database } = await createShop();
    const line = { route: '/v1/purchases', status: 200, organization: 'org_2', key: 'bak_3' };
    createRecordedLog().info(line, 'request completed');
    expect(await drop(database)).toBe('nothing is found');
  });
});
