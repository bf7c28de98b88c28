import { pino } from 'pino';
import { describe, expect, test as it } from 'vitest';
import { encodeId } from '../src/domain/public-id.ts';
import { ApiError } from '../src/http/response/errors.ts';
import { createTestApi } from './support/api.ts';
import { createRecordedLog, openLeakSearch } from './support/logged-lines.ts';
import { createTestDatabase, type TestDatabase } from './support/postgres.ts';
import { runProgram } from './support/program.ts';
import { addRow } from './support/rows.ts';
import { addKey, addOrganization, addPurchase } from './support/shop.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

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
  return { database, organizationId: organization_id, secret, customer };
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
  it('a secret or data fails', async () => {
    const shop = await createShop();
    const { pool, url } = shop.database;
    for (const [name, leakOf] of leaks) {
      const search = openLeakSearch(pool, url);
      createRecordedLog().trace({ value: leakOf(shop) }, 'a leak');
      expect(await search.leaks(), name).toEqual([expect.stringContaining('a leak')]);
      search.close();
    }
    const found = new RegExp(`^${leaks.length} lines of logs and metrics.*\\n.*a leak`);
    expect(await drop(shop.database)).toMatch(found);
  });

  it.for(['log', 'error'])('personal data in the %s of a program fails', async (form) => {
    const { database, customer } = await createShop();
    // An error's text is no JSON.
    const value = form === 'error' ? customer.default_address.street : customer.name;
    await runProgram('test/support/log-a-value.ts', [value, form], {}).exited();
    expect(await drop(database)).toMatch(/^1 lines of logs and metrics.*\n.*a leak/);
  });

  it('the secret of a key that a command has created fails', async () => {
    const { database, organizationId } = await createShop();
    const owner = ['--organization', encodeId('organization', organizationId)];
    const environment = { DATABASE_URL: database.url };
    const keys = runProgram(
      'src/commands/keys.ts',
      ['create', ...owner, '--name', 'BI'],
      environment,
    );
    expect(await keys.exited(), keys.output()).toBe(0);
    const [, secret] = /^crm_live_(\w+)$/m.exec(keys.stdout()) ?? [];
    createRecordedLog().info({ value: secret }, 'a leak');
    expect(await drop(database)).toMatch(/^1 lines of logs and metrics.*\n.*a leak/);
  });

  it('a text of a row that was deleted fails', async () => {
    const { database } = await createShop();
    await database.pool.query('delete from purchases');
    createRecordedLog().info({ value: 'PED-2207' }, 'a leak');
    expect(await drop(database)).toMatch(/^1 lines of logs and metrics.*\n.*a leak/);
  });

  it('personal data in a label of a metric fails', async () => {
    const { database, customer } = await createShop();
    const directory = await temporaryDirectory();
    const silent = { log: pino({ enabled: false }) };
    const api = await createTestApi(database.pool, directory.path, silent);
    // The pattern of the route is a label.
    api.app.get(`/${customer.email}`, async () => {
      throw new ApiError('not_found', 'There is nothing.');
    });
    expect((await api.get(`/${customer.email}`)).statusCode).toBe(404);
    await api.close();
    await directory.remove();
    expect(await drop(database)).toMatch(
      /lines of logs and metrics.*\n.*route="\/LIA@quintanilha"/,
    );
  });

  it('requests, their statuses and ids passes', async () => {
    const { database } = await createShop();
    const line = { route: '/v1/purchases', status: 200, organization: 'org_2', key: 'bak_3' };
    createRecordedLog().info(line, 'request completed');
    expect(await drop(database)).toBe('nothing is found');
  });
});
