import pg from 'pg';
import { describe, expect } from 'vitest';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { applyMapping } from '../../src/postgres/mapping/apply.ts';
import { checkMapping } from '../../src/postgres/mapping/check/check.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { createOrganization } from '../../src/postgres/organizations.ts';
import { workerSettings } from '../../sync/lock/worker-lock.ts';
import { createMapper } from '../../sync/mapping/mapper.ts';
import { databaseName, documentedTest, urlOf } from '../support/documented-database.ts';
import {
  createStore,
  createStoreTables,
  createTriggers,
  createViews,
  dropStore,
  prepareMapping,
} from '../support/documented-store.ts';
import { createRecordedLog } from '../support/logged-lines.ts';

const roles = ['api', 'worker', 'writer', 'store'] as const;
type Attacker = (typeof roles)[number];

/** Postgres takes back grants of a transaction that fails, but no number of a sequence. */
const outcomes = ['granted', 'altered', 'read_keys'] as const;
const evidence = [
  ...outcomes,
  ...[...roles, 'migrations', 'superuser'].map((role) => `as_${role}`),
];

/** A function of the attacker in his schema, which tries what only the owner of the service's tables may. */
const attack = (schema: string, attacker: Attacker) => `
  create function ${schema}.attack() returns boolean language plpgsql as $$
  begin
    perform nextval('evidence.as_' || coalesce(substring(current_user from '^${databaseName}_(.*)$'), 'superuser'));
    begin
      grant truncate on ${databaseName}.api_keys to ${databaseName}_${attacker};
      -- Without the right to, Postgres may warn only.
      if has_table_privilege('${databaseName}_${attacker}', '${databaseName}.api_keys', 'truncate') then
        perform nextval('evidence.granted');
      end if;
    exception when others then end;
    begin
      alter function ${databaseName}.log_inserted_purchases() security invoker;
      perform nextval('evidence.altered');
    exception when others then end;
    begin
      perform from ${databaseName}.api_keys;
      perform nextval('evidence.read_keys');
    exception when others then end;
    return true;
  end $$;
  create function ${schema}.constant(text) returns boolean language plpgsql immutable
    as 'begin return ${schema}.attack(); end';`;

/** Types whose values run \`attack\` when they are cast, or when they are made. */
const types = {
  composite: { definition: 'type $ as (x int)', value: 'row(1)' },
  enum: { definition: `type $ as enum ('1')`, value: `'1'` },
  domain: { definition: 'domain $ as bigint check (@.attack())', value: '1' },
};
type Kind = keyof typeof types;

function typeOf(schema: string, kind: Kind): string {
  const name = `${schema}.evil`;
  const { definition } = types[kind];
  const casts = ['bigint', 'text', 'json'].map(
    (target) => `
      create function ${schema}.to_${target}(${name}) returns ${target} language plpgsql
        as $$ begin perform ${schema}.attack(); return '1'; end $$;
      create cast (${name} as ${target}) with function ${schema}.to_${target}(${name}) as implicit;`,
  );
  return `create ${definition.replace('$', name).replace('@', schema)};
    ${kind === 'domain' ? '' : casts.join('')}`;
}

const it = documentedTest
  .extend('store', { scope: 'file' }, async ({ as }, { onCleanup }) => {
    await as().query(`create schema evidence; grant usage on schema evidence to public;
      ${evidence.map((name) => `create sequence evidence.${name}`).join(';')};
      grant usage on all sequences in schema evidence to public`);
    const store = await createStore(as);
    onCleanup(() => dropStore(as, store));
    return store;
  })
  .extend('connect', { scope: 'file' }, ({ as, store }) => (role: Attacker): Database => {
    return role === 'store' ? store : as(role);
  })
  /** What attacks have gained, and whose rights their code had. */
  .extend('gained', { scope: 'file' }, ({ as, store: _ }) => async () => {
    const { rows } = await as().query<{ name: string }>(
      `select sequencename as name from pg_sequences where schemaname = 'evidence' and last_value is not null`,
    );
    for (const { name } of rows) await as().query(`alter sequence evidence.${name} restart`);
    return rows.map(({ name }) => name).sort();
  })
  .extend('organization', { scope: 'file' }, ({ as }) =>
    createOrganization(as('writer'), 'My shop'),
  )
  /** The worker's own connections. */
  .extend('workerPool', { scope: 'file' }, async ({ as: _ }, { onCleanup }) => {
    const pool = createPool(urlOf('worker'), {
      max: 4,
      applicationName: 'test',
      settings: workerSettings,
    });
    onCleanup(() => pool.end());
    return pool;
  })
  /** A mapped shop with rows, whose rows decide keys of one view and whose columns are keys of both. */
  .extend('mapped', async ({ as, store, workerPool, organization, gained }) => {
    await as().query(`drop schema store cascade; truncate ${databaseName}.mapping_sources,
      ${databaseName}.mapping_changes, ${databaseName}.mapping_state`);
    await createStoreTables(as);
    await store.query(`${attack('store', 'store')}
      insert into store.clients values (gen_random_uuid(), 'Ana', null, '2026-01-01Z');
      insert into store.orders select 'o-1', id, 'BRL', 'done', 'web', '2026-01-02Z' from store.clients;
      insert into store.order_lines values ('o-1', 1, 1, 10)`);
    await createViews(as, organization);
    await as('migrations').query(`insert into mapping_sources values
      ('mapped_customers', 'store.orders', 'select orders.client_id')`);
    await prepareMapping(as);
    await apply(workerPool);
    await gained();
  });

const apply = async (worker: Database) =>
  applyMapping(worker, await readMapping(worker), {
    acceptDeletions: true,
    onProgress: () => {},
    signal: new AbortController().signal,
  });

/** Ignores what Postgres refuses. */
async function attempt(work: () => Promise<unknown>): Promise<void> {
  await work().catch((error) => {
    if (!(error instanceof pg.DatabaseError)) throw error;
  });
}

const triggers = [
  'after insert on target referencing new table as new_purchases for each statement',
  'after insert on target referencing new table as new_rows for each statement',
  'after update on target referencing old table as old_purchases new table as new_purchases for each statement',
  'after update on target referencing old table as old_rows new table as new_rows for each statement',
  'after delete on target referencing old table as old_purchases for each statement',
  'before insert on target for each row',
  'after insert or update or delete on target for each row',
];

describe('a role that attaches functions of the service to a table of its own', () => {
  it.for(roles.flatMap((role) => (Object.keys(types) as Kind[]).map((kind) => ({ role, kind }))))(
    'gains nothing: $role, $kind',
    async ({ role, kind }, { as, connect, gained, mapped: _ }) => {
      const { rows: functions } = await as('migrations').query<{ name: string }>(
        `select oid::regprocedure::text as name from pg_proc
         where prorettype = 'trigger'::regtype and pronamespace = current_schema()::regnamespace`,
      );
      expect(functions.length).toBeGreaterThanOrEqual(9);
      const connection = await connect(role).connect();
      await connection.query(`set search_path = ${databaseName}; ${attack('pg_temp', role)}
        ${typeOf('pg_temp', kind)}
        create temporary table target (
          organization_id pg_temp.evil, id pg_temp.evil, customer_id pg_temp.evil, order_id pg_temp.evil,
          created_at timestamptz, updated_at timestamptz, total_spent_in_cents bigint,
          customer_created_at timestamptz, customer_updated_at timestamptz, customer_total_spent_in_cents bigint);
        grant all on target to public`);
      const { value } = types[kind];
      for (const { name } of functions) {
        for (const trigger of triggers) {
          await attempt(() =>
            connection.query(`create trigger evil ${trigger} execute function ${name}`),
          );
          for (const write of [
            `insert into target values (${value}, ${value}, ${value}, ${value})`,
            'update target set total_spent_in_cents = 1',
            'delete from target',
          ]) {
            await attempt(() => connection.query(write));
          }
          await connection.query('drop trigger if exists evil on target');
        }
      }
      connection.release(true);
      // The API and the writer read keys of their own right.
      const own = ['api', 'writer'].includes(role) ? [`as_${role}`, 'read_keys'] : [`as_${role}`];
      expect(await gained()).toEqual(own);
    },
  );

  it('reads no keys of rows', async ({ as, store: _, mapped: __ }) => {
    const find = `select * from "find_keys_of store.orders"('mapped_customers', '[{"client_id": "11111111-1111-4111-8111-111111111111"}]')`;
    await expect(as('api').query(find)).rejects.toMatchObject({ code: '42501' });
  });
});

const newOrder = (columns = '', values = '') =>
  `insert into store.orders (id, currency, state, placed_at${columns}) values ('o-2', 'BRL', 'done', now()${values})`;
const keyOfType = (kind: Kind) => ({
  name: `a key of another type: ${kind}`,
  sabotage: `alter table store.order_lines rename order_id to former; ${typeOf('store', kind)}
    alter table store.order_lines add order_id store.evil`,
  write: `insert into store.order_lines (former, line, quantity, unit_price, order_id)
    values ('o-1', 9, 1, 1, ${types[kind].value})`,
});
const columnOfType = (kind: Kind) => ({
  name: `a column of a logged row: ${kind}`,
  sabotage: `${typeOf('store', kind)} alter table store.orders add extra store.evil`,
  write: newOrder(', extra', `, ${types[kind].value}`),
});

const sabotages: readonly {
  readonly name: string;
  readonly sabotage: string;
  readonly write: string;
}[] = [
  keyOfType('composite'),
  keyOfType('enum'),
  keyOfType('domain'),
  columnOfType('enum'),
  columnOfType('domain'),
  {
    name: 'a generated column',
    sabotage: `alter table store.orders add extra boolean generated always as (store.constant(id)) stored`,
    write: newOrder(),
  },
  {
    name: 'a default',
    sabotage:
      'alter table store.orders add extra boolean; alter table store.orders alter extra set default store.attack()',
    write: newOrder(),
  },
  {
    name: 'a check',
    sabotage: 'alter table store.orders add check (store.attack())',
    write: newOrder(),
  },
  {
    name: 'a predicate of an index',
    sabotage: `create index on store.orders (id) where store.constant('')`,
    write: newOrder(),
  },
  {
    name: 'operators in the search path',
    sabotage: `
      create function store.equal(text, text) returns boolean language plpgsql as 'begin return store.attack(); end';
      create operator store.= (leftarg = text, rightarg = text, function = store.equal);
      create operator store.<> (leftarg = text, rightarg = text, function = store.equal)`,
    write: `select 'a' = 'b'::text; begin; set local search_path = store, pg_catalog; select 'a'::text = 'b'::text;
      ${newOrder()}; update store.orders set state = 'open'; commit`,
  },
  {
    name: 'a row-level security policy',
    sabotage: `alter table store.orders enable row level security, force row level security;
      create policy evil on store.orders using (store.attack()) with check (store.attack())`,
    write: newOrder(),
  },
];

describe('the owner of mapped tables', () => {
  it.for(sabotages)(
    'gains nothing from the service: $name',
    async ({ sabotage, write }, { as, store, workerPool: worker, gained, mapped: _ }) => {
      await store.query(sabotage);
      await store.query(write);
      await attempt(() => createTriggers(as));
      await attempt(() =>
        createMapper({ database: worker, pollIntervalMs: 10, log: createRecordedLog() }).once(),
      );
      await attempt(() => checkMapping(worker));
      await attempt(() => apply(worker));
      await attempt(() => store.query(write));
      // Code of the owner of a table runs with the rights of the roles that write or read it.
      const allowed = ['as_store', 'as_worker'];
      const found = await gained();
      expect(found).toContain('as_store');
      expect(found.filter((name) => !allowed.includes(name))).toEqual([]);
    },
  );
});
