import { createTestApi, type TestApi } from './api.ts';
import { createTestDatabase, type TestDatabase } from './postgres.ts';
import { addKey, addOrganization } from './shop.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** Two organizations with a key each, and the API that serves both. */
export type TwoShops = {
  readonly database: TestDatabase;
  readonly api: TestApi;
  readonly organizationId: bigint;
  readonly secret: string;
  readonly otherOrganizationId: bigint;
  readonly otherSecret: string;
  close(): Promise<void>;
};

export async function createTwoShops(): Promise<TwoShops> {
  const database = await createTestDatabase();
  const directory = await temporaryDirectory();
  const api = await createTestApi(database.pool, directory.path);
  const organizationId = await addOrganization(database.pool, 'Shop');
  const otherOrganizationId = await addOrganization(database.pool, 'Other shop');
  return {
    database,
    api,
    organizationId,
    secret: (await addKey(database.pool, organizationId)).secret,
    otherOrganizationId,
    otherSecret: (await addKey(database.pool, otherOrganizationId)).secret,
    close: async () => {
      await api.close();
      await database.drop();
      await directory.remove();
    },
  };
}
