import type { LightMyRequestResponse } from 'fastify';
import { encodeId } from '../../src/domain/public-id.ts';
import type { TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { administer, type TestDatabase } from '../support/postgres.ts';
import { addPurchase, type PurchaseValues } from '../support/shop.ts';
import type { TestWorker } from '../support/sync.ts';

/** Postgres serves purchases before they are published, and DuckDB serves them afterwards. */
export const servings = ['before they are published', 'from published files'] as const;
type Serving = (typeof servings)[number];

type ServedShop = {
  readonly database: TestDatabase;
  /** Each test has a new organization, with one customer and a key. */
  readonly organizationId: bigint;
  readonly customerId: bigint;
  get(url: string, headers?: Record<string, string>): Promise<LightMyRequestResponse>;
  /** Adds a purchase. Its customer is `customerId` by default. */
  add(values?: Omit<PurchaseValues, 'customer_id'> & { customer_id?: bigint }): Promise<bigint>;
  /** Publishes purchases if `serving` is from published files. Later changes are not in them. */
  publish(): Promise<void>;
};

/** Sets up a shop for each test of a `describe`, over the file's database and API. */
export function servedShop(serving: Serving = 'from published files'): ServedShop {
  let database: TestDatabase;
  let worker: TestWorker;
  let api: TestApi;
  let organizationId: bigint;
  let customerId: bigint;
  let secret: string;
  test.beforeAll(async ({ database: { url } }) => {
    // A zone other than UTC, which no response may show.
    const name = new URL(url).pathname.slice(1);
    await administer(url, `alter database ${name} set timezone = 'Asia/Kolkata'`);
  });
  test.beforeEach(
    async ({ database: ownDatabase, worker: ownWorker, api: ownApi, newShop, newCustomerId }) => {
      [database, worker, api] = [ownDatabase, ownWorker, ownApi];
      ({ organizationId, secret } = newShop);
      customerId = newCustomerId;
    },
  );
  return {
    get database() {
      return database;
    },
    get organizationId() {
      return organizationId;
    },
    get customerId() {
      return customerId;
    },
    get: (url, headers) => api.get(url, secret, headers),
    add: (values = {}) =>
      addPurchase(database.pool, organizationId, { customer_id: customerId, ...values }),
    publish: async () => {
      if (serving === 'from published files') await worker.once([organizationId]);
    },
  };
}

export const purchaseUrl = (id: bigint): string => `/v1/purchases/${encodeId('purchase', id)}`;
export const customerUrl = (id: bigint): string =>
  `/v1/customers/${encodeId('customer', id)}/purchases`;
