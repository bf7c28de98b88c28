import { onTestFinished } from 'vitest';
import { createPool, type Database } from '../../../src/postgres/connection/pool.ts';
import { workerSettings } from '../../../sync/lock/worker-lock.ts';
import { type DocumentedRole, databaseName, urlOf } from '../../support/documented-database.ts';
import type { Roles } from './change.ts';
import { apply, type Databases, runTogether } from './operator.ts';
import { grants } from './right-changes.ts';
import { decoys } from './session-settings.ts';
import type { Shop } from './sessions.ts';
import { createTables, firstRows, firstStore, type Sites } from './store.ts';
import { createViews } from './view-changes.ts';
import { feeFunction, replaceSources } from './views.ts';

export type FuzzedShop = {
  readonly shop: Shop;
  readonly databases: Databases;
  readonly sites: Sites;
  /** As a superuser, with the schema of the service. */
  readonly url: string;
  readonly workerUrl: string;
};

/**
 * Creates a shop of two sites, which are organizations 1 and 4, and maps it. One role has all rights, or the
 * roles of docs/sql have theirs, and those of the shop others.
 */
export async function createFuzzedShop(
  as: (role?: DocumentedRole) => Database,
  hasOneRole: boolean,
): Promise<FuzzedShop> {
  const url = new URL(urlOf());
  url.searchParams.set('options', `-c search_path=${databaseName}`);
  const { href } = url;
  const workerUrl = hasOneRole ? href : urlOf('worker');
  const databases: Databases = {
    store: open(href, 'store'),
    migrations: hasOneRole ? open(href, 'operator', workerSettings) : as('migrations'),
    worker: open(workerUrl, 'operator', { row_security: 'off' }),
  };
  const { store: database } = databases;
  const role = (name: string) => `${databaseName}_store_${name}`;
  const roles: Roles = {
    ...{ owner: role('owner'), writer: role('writer'), visitor: role('visitor') },
    migrations: hasOneRole ? null : `${databaseName}_migrations`,
    worker: hasOneRole ? null : `${databaseName}_worker`,
  };
  const shop: Shop = {
    ...{ database, roles, store: firstStore(), processes: new Set(), refusals: new Map() },
    ...{ version: 0, lastId: 10_000, isPaused: false, writing: 0, writes: 0 },
    areReplicas: hasOneRole,
  };
  database.on('connect', (connection) =>
    shop.processes.add((connection as unknown as { processID: number }).processID),
  );
  for (const name of [roles.owner, roles.writer, roles.visitor]) {
    await database.query(`create role ${name}`);
    onTestFinished(async () => {
      await as().query(`drop owned by ${name} cascade; drop role ${name}`);
    });
  }
  const { rows } = await database.query<{ id: bigint }>(
    `insert into organizations (name) values ('First site'), ('Explicit ids'), ('My shop'), ('Second site') returning id`,
  );
  const [first = 0n, , , second = 0n] = rows.map(({ id }) => id);
  const sites: Sites = { first, second };
  await database.query(
    `create schema store; create schema "Store two"; ${decoys}; ${createTables(shop.store)} ${feeFunction(shop.store)};
     ${firstRows(300, 1_500)}`,
  );
  await runTogether(database, grants(roles));
  await runTogether(database, createViews(shop.store, { roles, sites }));
  await databases.migrations.query(replaceSources(shop.store));
  await apply(databases, roles);
  return { shop, databases, sites, url: href, workerUrl };
}

/** Opens a pool until the end of the test. */
export function open(url: string, applicationName: string, settings = {}): Database {
  const pool = createPool(url, { max: 12, applicationName, settings });
  onTestFinished(() => pool.end());
  return pool;
}
