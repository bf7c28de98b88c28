import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { createObjects } from '../../src/postgres/mapping/apply.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import {
  type DocumentedRole,
  databaseName,
  documentedBlocks,
  documentedFile,
  urlOf,
} from './documented-database.ts';

type As = (role?: DocumentedRole) => Database;

/** A role that owns the tables of docs/sql/example-tables.sql, and has no right on those of the service. */
export const storeRole = `${databaseName}_store`;

/** Creates the role and its tables, with the rights of docs/your-data.md. Returns its connections. */
export async function createStore(as: As): Promise<Database> {
  await as().query(`create role ${storeRole} login password 'secret'`);
  await createStoreTables(as);
  const url = Object.assign(new URL(urlOf()), { username: storeRole, password: 'secret' });
  return createPool(url.href, { max: 4, applicationName: 'store' });
}

export async function createStoreTables(as: As): Promise<void> {
  const [rights = ''] = await documentedBlocks('docs/your-data.md', 'Map your own tables');
  await as().query(`${await documentedFile('example-tables.sql')}
    alter schema store owner to ${storeRole};
    alter table store.clients owner to ${storeRole}; alter table store.orders owner to ${storeRole};
    alter table store.order_lines owner to ${storeRole}`);
  await as().query(`set role ${storeRole}; ${rights}; reset role`);
}

/** Creates the views of docs/sql/example-mapping.sql. */
export async function createViews(as: As, organization: bigint): Promise<void> {
  const views = await documentedFile('example-mapping.sql');
  await as('migrations').query(
    views.replaceAll('1::bigint as organization_id', `${organization}::bigint as organization_id`),
  );
}

/** Creates triggers, and gives the worker the rights to apply the views. */
export async function prepareMapping(as: As): Promise<void> {
  await createTriggers(as);
  await as('migrations').query(await documentedFile('mapping-grants.sql'));
}

/** As `npx crm-data-service mapping triggers`. */
export const createTriggers = async (as: As): Promise<string[]> =>
  createObjects(
    as('migrations'),
    await readMapping(as('migrations')),
    new AbortController().signal,
  );

export async function dropStore(as: As, store: Database): Promise<void> {
  await store.end();
  await as().query(`drop schema if exists store cascade; drop role ${storeRole}`);
}
