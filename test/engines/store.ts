import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createClickHouseEngine } from '../../src/engines/clickhouse/engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { publishTo, startClickHouse } from '../clickhouse/store.ts';
import { test } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addCustomer, addOrganization, addPurchase, type PurchaseValues } from '../support/shop.ts';

/** The engines, DuckDB with purchases in each of its files. */
export const engines = [
  'postgres',
  'duckdb',
  'duckdb, all purchases in the delta',
  'duckdb, purchases in base and delta',
  'clickhouse',
  'clickhouse, all purchases in the delta',
  'clickhouse, purchases in base and delta',
] as const;
export type EngineName = (typeof engines)[number];

export type Stored = Omit<PurchaseValues, 'customer_id'> & { customer?: number };
type Shop = { organization: bigint; ids: bigint[]; customers: bigint[] };

export type Store = {
  readonly database: TestDatabase;
  readonly engine: PurchaseEngine;
  /** Adds an organization with two customers and these purchases. */
  add(purchases: Stored[]): Promise<Shop>;
  /** Publishes the purchases for the engine. */
  publish(shop: Shop): Promise<void>;
  /** Adds an organization, and publishes it. */
  shop(purchases: Stored[]): Promise<Shop>;
};

/** Sets an engine up for the tests of a `describe`. */
export function storeIn(name: EngineName): Store {
  let database: TestDatabase;
  let engine: PurchaseEngine;

  let once: (organization: bigint) => Promise<void>;

  test.beforeAll(async ({ database: ownDatabase, worker, engine: duckdb, directory }) => {
    database = ownDatabase;
    engine = name === 'postgres' ? createPostgresEngine(database.pool) : duckdb;
    once = (organization) => worker.once([organization]);
    if (!name.startsWith('clickhouse')) return;
    const { clickhouse, stop } = await startClickHouse(`${directory}/${name}`);
    engine = createClickHouseEngine(clickhouse, {
      dataDirectory: directory,
      concurrency: 3,
      queueLimit: 100,
      queueLimitPerClient: 100,
      timeoutMs: 30_000,
    });
    once = (organization) => publishTo(clickhouse, database.pool, organization);
    return stop;
  });

  const add = async (purchases: Stored[]): Promise<Shop> => {
    const organization = await addOrganization(database.pool);
    if (name.endsWith('all purchases in the delta')) await once(organization);
    const customers = [
      await addCustomer(database.pool, organization),
      await addCustomer(database.pool, organization),
    ];
    const ids: bigint[] = [];
    for (const { customer = 0, ...values } of purchases) {
      const customerId = customers[customer] as bigint;
      ids.push(
        await addPurchase(database.pool, organization, { ...values, customer_id: customerId }),
      );
    }
    return { organization, ids, customers };
  };
  const publish = async ({ organization, customers }: Shop) => {
    if (name === 'postgres') return;
    if (name.endsWith('purchases in base and delta')) {
      const negateHalf = () =>
        database.pool.query(
          `update purchases set purchase_value_in_cents = -purchase_value_in_cents
           where organization_id = $1 and id % 2 = 0`,
          [organization],
        );
      const values = { customer_id: customers[1] as bigint, currency: 'EUR', utm_source: 'gone' };
      const superseded = await addPurchase(database.pool, organization, values);
      await negateHalf();
      await once(organization);
      await negateHalf();
      await database.pool.query('delete from purchases where id = $1', [superseded]);
    }
    await once(organization);
  };
  return {
    get database() {
      return database;
    },
    get engine() {
      return engine;
    },
    add,
    publish,
    async shop(purchases) {
      const added = await add(purchases);
      await publish(added);
      return added;
    },
  };
}
