import type { LightMyRequestResponse } from 'fastify';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { administer, createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import {
  addCustomer,
  addKey,
  addOrganization,
  addPurchase,
  type PurchaseValues,
} from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Where the answers about an organization's purchases come from. */
export const servings = [
  'before a generation is published',
  'from a published generation',
] as const;
export type Serving = (typeof servings)[number];

export type ServedShop = {
  readonly database: TestDatabase;
  /** An organization of each test's own, with one customer and a key. */
  readonly organizationId: bigint;
  readonly customerId: bigint;
  get(url: string): Promise<LightMyRequestResponse>;
  /** Adds a purchase, of the one customer where no other is given. */
  add(values?: Omit<PurchaseValues, 'customer_id'> & { customer_id?: bigint }): Promise<bigint>;
  /** What is stored from here on is in no answer of a published generation. */
  publish(): Promise<void>;
};

/** Sets up, around the tests of a `describe`, a shop and the API that serves it. */
export function servedShop(serving: Serving): ServedShop {
  let database: TestDatabase;
  let folder: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: Awaited<ReturnType<typeof createTestWorker>>;
  let api: TestApi;
  let organizationId: bigint;
  let customerId: bigint;
  let secret: string;
  beforeAll(async () => {
    database = await createTestDatabase();
    // A zone other than UTC, which must not be seen anywhere.
    const name = new URL(database.url).pathname.slice(1);
    await administer(database.url, `alter database ${name} set timezone = 'Asia/Kolkata'`);
    folder = await temporaryDirectory();
    worker = await createTestWorker(database.pool, folder.path);
    api = await createTestApi(database.pool, folder.path);
  });
  beforeEach(async () => {
    organizationId = await addOrganization(database.pool);
    customerId = await addCustomer(database.pool, organizationId);
    ({ secret } = await addKey(database.pool, organizationId));
  });
  afterAll(async () => {
    await api.close();
    await worker.close();
    await database.drop();
    await folder.remove();
  });
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
    get: (url) => api.get(url, secret),
    add: (values = {}) =>
      addPurchase(database.pool, organizationId, { customer_id: customerId, ...values }),
    publish: async () => {
      if (serving === 'from a published generation') await worker.syncAll();
    },
  };
}

export const purchaseUrl = (id: bigint): string => `/v1/purchases/${encodeId('purchase', id)}`;
export const customerUrl = (id: bigint): string =>
  `/v1/customers/${encodeId('customer', id)}/purchases`;
