import { readFile } from 'node:fs/promises';
import { describe, expect } from 'vitest';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { createOrganization } from '../../src/postgres/organizations.ts';
import { checkRights, roleNamesOf } from '../../src/postgres/rights/check-rights.ts';
import { readDefinerFunctions } from '../../src/postgres/rights/read-rights.ts';
import { definerFunctions, roleRights } from '../../src/postgres/rights/role-rights.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { packageFile } from '../../src/process/package-files.ts';
import {
  databaseName,
  documentedBlocks,
  documentedFile,
  documentedTest,
  urlOf,
} from '../support/documented-database.ts';
import {
  createStore,
  createViews,
  dropStore,
  prepareMapping,
} from '../support/documented-store.ts';

const names = roleNamesOf(`${databaseName}_migrations`);
const inDocument = (text: string) => text.replaceAll(databaseName, 'shop');
const inDatabase = (text: string) => text.replaceAll(/\bshop(?=\b|_)/g, databaseName);

const it = documentedTest
  /** What the check finds after statements of the owner or the superuser, which are rolled back. */
  .extend(
    'foundAfter',
    { scope: 'file' },
    ({ as }) =>
      (statements: string, by?: 'superuser') =>
        withConnection(as(by === 'superuser' ? undefined : 'migrations'), async (connection) => {
          await connection.query(`begin; set local search_path = ${databaseName}`);
          await connection.query(statements);
          const findings = await checkRights(connection, names);
          await connection.query('rollback');
          return findings.map(({ message, advice }) => inDocument(`${message} ${advice}`));
        }),
  )
  /** With a mapping of another role's tables. */
  .extend('mapped', { scope: 'file' }, async ({ as }, { onCleanup }) => {
    const store = await createStore(as);
    onCleanup(() => dropStore(as, store));
    await createViews(as, await createOrganization(as('writer'), 'My shop'));
    await prepareMapping(as);
  });

/** Statements, who runs them, and what the check then finds. */
const wrong: readonly {
  readonly statement: string;
  readonly by?: 'superuser';
  readonly found: string;
}[] = [
  {
    statement: 'grant delete on customers to shop_api',
    found: 'shop_api has delete on customers. revoke delete on customers from shop_api;',
  },
  {
    statement: 'grant select on mapped_purchases, mapping_changes to shop_api',
    found:
      'shop_api has select on mapped_purchases. revoke select on mapped_purchases from shop_api;',
  },
  {
    statement: 'grant update on mapped_customers to shop_worker',
    found:
      'shop_worker has update on mapped_customers. revoke update on mapped_customers from shop_worker;',
  },
  {
    statement: 'grant select (secret_hash) on api_keys to shop_worker',
    found:
      'shop_worker has select (secret_hash) on api_keys. revoke select (secret_hash) on api_keys from shop_worker;',
  },
  {
    statement: 'revoke insert on purchase_changes from shop_worker',
    found:
      'shop_worker lacks insert on purchase_changes. grant insert on purchase_changes to shop_worker;',
  },
  {
    statement: 'revoke insert on mapping_changes from public',
    found: 'public lacks insert on mapping_changes. grant insert on mapping_changes to public;',
  },
  {
    statement: 'grant select on api_keys to public',
    found: 'public has select on api_keys. revoke select on api_keys from public;',
  },
  {
    statement: 'grant create on schema shop to shop_writer',
    found:
      'shop_writer may create objects in the schema shop. revoke create on schema shop from shop_writer;',
  },
  {
    statement: 'revoke usage on schema shop from public, shop_api',
    found: 'shop_api may not use the schema shop. grant usage on schema shop to shop_api;',
  },
  {
    statement: 'grant usage on sequence organizations_id_seq to shop_api',
    found:
      'shop_api has usage on organizations_id_seq. revoke usage on organizations_id_seq from shop_api;',
  },
  {
    statement: 'grant insert on store.orders to shop_worker',
    by: 'superuser',
    found:
      'shop_worker has insert on store.orders. revoke insert on store.orders from shop_worker;',
  },
  {
    statement: 'grant shop_migrations to shop_writer',
    by: 'superuser',
    found: 'shop_writer has member of shop_migrations. revoke shop_migrations from shop_writer;',
  },
  {
    statement: 'alter role shop_worker createrole',
    by: 'superuser',
    found: 'shop_worker has createrole. alter role shop_worker nocreaterole;',
  },
  {
    statement: 'grant execute on function log_inserted_purchases() to shop_worker',
    found:
      'shop_worker may execute log_inserted_purchases, which runs with the rights of shop_migrations. revoke execute on function log_inserted_purchases from shop_worker;',
  },
  {
    statement: `create function own() returns int language sql security definer as 'select 1'`,
    found:
      'The function own runs with the rights of shop_migrations. alter function own security invoker;',
  },
];

describe('the rights of the roles', () => {
  it('are those of the table in SECURITY.md', async () => {
    const security = await readFile(packageFile('SECURITY.md'), 'utf8');
    const documented = security.match(/^\| (?:`shop_\w+`|every role)(?: \| [^|]+){3} \|$/gm);
    expect(documented).toEqual(
      roleRights.map(({ role, rights, on, for: use }) => {
        const name = role === 'public' ? 'every role' : `\`shop_${role}\``;
        const objects = on.map((object) => `\`${object}\``).join(', ');
        return `| ${name} | ${rights} | ${objects} | ${use ?? 'all'} |`;
      }),
    );
    for (const name of definerFunctions) expect(security).toContain(`\`${name}\``);
  });

  it('are granted by docs/sql, and no others, with all options, upserts and a mapping', async ({
    as,
    foundAfter,
  }) => {
    expect(await foundAfter('')).toEqual([]);
    const options = await documentedBlocks('docs/your-data.md', 'Roles and a schema of its own');
    expect(options).toHaveLength(2);
    const upserts = await documentedFile('upsert-tables.sql');
    expect(await foundAfter(`${options.join(';')}; ${upserts}`)).toEqual([]);
    const { rows } = await as().query<{ name: string }>(
      `select proname as name from pg_proc join pg_namespace on pg_namespace.oid = pronamespace
       where prosecdef and nspname not in ('pg_catalog', 'information_schema') order by 1`,
    );
    expect(rows.map(({ name }) => name)).toEqual(definerFunctions);
  });

  it('are granted for a mapping, whose functions run with the rights of their callers', async ({
    as,
    foundAfter,
    mapped: _,
  }) => {
    expect(await foundAfter('')).toEqual([]);
    const found = await readDefinerFunctions(as('migrations'));
    expect(found.map(({ name }) => name)).toEqual(definerFunctions);
    expect(found.flatMap(({ executors }) => executors)).toEqual([]);
  });

  it.for(wrong)(
    'are compared: $statement',
    async ({ statement, by, found }, { foundAfter, mapped: _ }) => {
      expect(await foundAfter(inDatabase(statement), by)).toContain(found);
    },
  );

  it('are restored by migrate, in functions of earlier releases and for writers of mapped tables', async ({
    as,
    foundAfter,
    mapped: _,
  }) => {
    await as('migrations').query(`
      alter function "map_rows_of store.orders"() security definer;
      grant execute on function log_inserted_purchases(), pass_on_sort_keys() to public`);
    expect(await foundAfter('')).toHaveLength(3);
    await migrate(urlOf('migrations'));
    expect(await foundAfter('')).toEqual([]);
    await as('migrations').query('revoke insert on mapping_changes from public');
    await migrate(urlOf('migrations'));
    expect(await foundAfter('')).toEqual([]);
  });

  it('are printed by migrate --check-rights, which exits with 1 after a finding', {
    tags: ['slow'],
  }, async ({ as, program }) => {
    const check = async () => {
      const running = program('src/commands/migrate.ts', ['--check-rights'], {
        DATABASE_URL: urlOf('migrations'),
      });
      return { code: await running.exited(), output: running.output() };
    };
    expect(await check()).toEqual({
      code: 0,
      output: 'The roles have the rights of SECURITY.md, and no others.\n',
    });
    await as('migrations').query(`grant delete on customers to ${databaseName}_api`);
    expect(await check()).toEqual({
      code: 1,
      output: `${databaseName}_api has delete on customers.\n  → revoke delete on customers from ${databaseName}_api;\n`,
    });
  });
});
