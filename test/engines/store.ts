import { join } from 'node:path';
import { describe, expect, inject } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import type { Worker } from '../../sync/worker/worker.ts';
import {
  createClickHouseWorker,
  createTestClickHouse,
  createTestClickHouseEngine,
} from '../clickhouse/database.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { untilShown } from '../support/published.ts';
import { addOrganization, addPurchase, type PurchaseValues } from '../support/shop.ts';
import { createTestWorker, type TestWorkerOptions } from '../support/sync.ts';

/** The engines, with purchases in a base, in a log, or in both. */
const ofSuite = [
  'postgres',
  'duckdb, purchases in a base',
  'duckdb, purchases in a log',
  'duckdb, purchases in base and log',
  'duckdb, purchases in base and log, opened before they change',
] as const;
/** With purchases in the first load, in later changes, or in both. */
const ofClickHouse = [
  'clickhouse',
  'clickhouse, all purchases in the delta',
  'clickhouse, purchases in base and delta',
] as const;
/** `npm run test:clickhouse` tests the engine over ClickHouse alone. */
export const hasClickHouse = inject('clickHouseUrl') !== undefined;
const engines = hasClickHouse ? ofClickHouse : ofSuite;
type EngineName = (typeof engines)[number];

/** `random-questions` compares purchases of each part alone, and of both, as well. */
const isSlow = (name: EngineName) =>
  /^clickhouse$|purchases in (a base|a log|the delta|base and log)$/.test(name);

/** Runs tests for each engine. */
export function describeEngines(title: string, tests: (name: EngineName) => void): void {
  describe.each(engines.filter((name) => !isSlow(name)))(title, tests);
  describe.each(engines.filter(isSlow))(title, { tags: ['slow'] }, tests);
}

export type OpenEngine = {
  readonly engine: PurchaseEngine;
  /** A worker that publishes for the engine. */
  createWorker(options?: TestWorkerOptions): Promise<Worker>;
  close(): Promise<void>;
};

/** Opens the engine of this run, without purchases: over ClickHouse, or over DuckDB files. */
export const openEngine = (database: Database, directory: string): Promise<OpenEngine> =>
  hasClickHouse ? openClickHouseEngine(database, directory) : openDuckDBEngine(database, directory);

/** Opens all engines of this run that a worker publishes for. */
export const openEngines = async (database: Database, directory: string): Promise<OpenEngine[]> => [
  ...(hasClickHouse ? [await openClickHouseEngine(database, join(directory, 'clickhouse'))] : []),
  await openDuckDBEngine(database, join(directory, 'duckdb')),
];

async function openDuckDBEngine(database: Database, directory: string): Promise<OpenEngine> {
  const engine = await createTestDuckDBEngine(directory);
  return {
    engine,
    createWorker: (options) => createTestWorker(database, directory, options),
    close: engine.close,
  };
}

async function openClickHouseEngine(database: Database, directory: string): Promise<OpenEngine> {
  const { clickhouse, options, drop } = await createTestClickHouse();
  const engine = createTestClickHouseEngine(options);
  return {
    engine,
    createWorker: (options) => createClickHouseWorker(clickhouse, database, directory, options),
    close: async () => {
      await engine.close();
      await drop();
    },
  };
}

export type Stored = Omit<PurchaseValues, 'customer_id'> & { customer?: number };
type Shop = { organization: bigint; ids: bigint[]; customers: bigint[] };

type Store = {
  readonly database: TestDatabase;
  readonly engine: PurchaseEngine;
  /** Adds an organization with nine customers and these purchases. */
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
  let folder: string;

  let once: (organization: bigint) => Promise<void>;

  test.beforeAll(async ({ database: ownDatabase, directory }) => {
    database = ownDatabase;
    folder = directory;
    const store = await openEngine(database.pool, directory);
    const options = name.includes('base') ? { maxPurchasesWithoutBase: 0 } : {};
    const worker = await store.createWorker(options);
    engine = name === 'postgres' ? createPostgresEngine(database.pool) : store.engine;
    once = (organization) => worker.once([organization]);
    return async () => {
      await worker.close();
      await store.close();
    };
  });

  const add = async (purchases: Stored[]): Promise<Shop> => {
    const organization = await addOrganization(database.pool);
    if (/all purchases in the delta|in a log/.test(name)) await once(organization);
    const { rows } = await database.pool.query<{ id: bigint }>(
      'insert into customers (organization_id) select $1 from generate_series(1, 9) returning id',
      [organization],
    );
    const customers = rows.map(({ id }) => id);
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
    if (name.includes('in base and')) {
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
      if (name.endsWith('opened before they change')) {
        await readPurchaseStats(engine, organization, { filters: {}, groupLimit: 1 });
      }
      await negateHalf();
      await database.pool.query('delete from purchases where id = $1', [superseded]);
    }
    await once(organization);
    if (name.startsWith('duckdb')) {
      expectFiles(organization);
      await untilShown(engine, folder, organization);
    }
  };
  /** A load without purchases writes no base. */
  const expectFiles = (organization: bigint) => {
    const current = readCurrent(organizationDirectory(folder, organization), layoutVersion);
    const { base = null, purchases = 0 } = current ?? {};
    expect(base !== null).toBe(name.includes('base') && purchases > 0);
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
