import type { Database } from '../../../src/postgres/connection/pool.ts';
import { inTransaction, withConnection } from '../../../src/postgres/connection/pool.ts';
import { applyMapping, createObjects } from '../../../src/postgres/mapping/apply.ts';
import { checkMapping } from '../../../src/postgres/mapping/check/check.ts';
import { readMapping } from '../../../src/postgres/mapping/mapping-definition.ts';
import { documentedFile } from '../../support/documented-database.ts';
import type { Need, Roles } from './change.ts';

import { disablePolicies, grants } from './right-changes.ts';
import type { Sites, Store } from './store.ts';
import { createViews } from './view-changes.ts';
import { replaceSources } from './views.ts';

export type Databases = {
  /** Of the shop. */
  readonly store: Database;
  /** Of the service, as an operator has them. */
  readonly migrations: Database;
  readonly worker: Database;
};

/** Does what the documents say after changes of the shop's tables. */
export async function repair(
  databases: Databases,
  store: Store,
  {
    needs,
    roles,
    sites,
  }: { readonly needs: ReadonlySet<Need>; readonly roles: Roles; readonly sites: Sites },
): Promise<void> {
  if (needs.has('policies')) await runEach(databases.store, disablePolicies(store));
  if (needs.has('rights')) await runEach(databases.store, grants(roles));
  if (needs.has('views')) await runTogether(databases.store, createViews(store, { roles, sites }));
  if (needs.has('triggers') && roles.migrations !== null)
    await databases.store.query(enableTriggers);
  if (needs.has('sources')) await databases.migrations.query(replaceSources(store));
  if (needs.size > 0) await apply(databases, roles);
}

/** Only the owner of a table may enable its triggers. */
const enableTriggers = `do $$
  declare disabled record;
  begin
    for disabled in select tgrelid::regclass::text as name, tgname from pg_trigger
      where tgname in ('map_inserted', 'map_updated', 'map_deleted', 'map_truncated') and tgenabled not in ('O', 'A')
    loop
      execute format('alter table %s enable trigger %I', disabled.name, disabled.tgname);
    end loop;
  end $$`;

const signal = new AbortController().signal;

/** `npx crm-data-service mapping triggers`, mapping-grants.sql, `check` and `apply`. */
export async function apply(
  { migrations, worker }: Databases,
  roles: Roles,
  acceptDeletions = false,
): Promise<void> {
  if (roles.migrations !== null) {
    await createObjects(migrations, await readMapping(migrations), signal);
    await migrations.query(await documentedFile('mapping-grants.sql'));
  }
  const { mapping, findings } = await checkMapping(worker);
  if (mapping === null)
    throw new Error(`check refuses the mapping: ${JSON.stringify(findings, null, 1)}`);
  await applyMapping(worker, mapping, { acceptDeletions, onProgress: () => {}, signal });
}

/** Runs statements in one transaction; a single one outside of one. */
export const runTogether = (
  database: Database,
  statements: readonly string[],
  isKept = true,
): Promise<void> =>
  withConnection(database, async (connection) => {
    const [only] = statements;
    if (only !== undefined && statements.length === 1 && isKept) {
      await connection.query(only);
      return;
    }
    const rollback = new Error('rolled back');
    await inTransaction(connection, async () => {
      for (const statement of statements) await connection.query(statement);
      if (!isKept) throw rollback;
    }).catch((error) => {
      if (error !== rollback) throw error;
    });
  });

/** A grant locks no table, so the creation of a trigger at the same time may make it fail (XX000). */
async function runEach(database: Database, statements: readonly string[]): Promise<void> {
  for (const statement of statements) {
    await database.query(statement).catch((error) => {
      if (error.code !== 'XX000') throw error;
      return database.query(statement);
    });
  }
}
