import { change, type Roles, type StoreChange } from './change.ts';
import { inStore, quote, type Store, type TableName, tableNames, tableOf } from './store.ts';

// Triggers of the mapping, owners, rights and policies.

const events = ['inserted', 'updated', 'deleted', 'truncated'];

const anyTable = (store: Store, random: { pick<T>(items: readonly T[]): T }): string =>
  random.pick([
    ...tableNames.map((name) => tableOf(store, name)),
    ...store.partitions.map(({ name }) => inStore(name)),
  ]);

const dropTrigger: StoreChange = (store, { random }) =>
  change(
    'drop a trigger',
    [`drop trigger if exists map_${random.pick(events)} on ${anyTable(store, random)}`],
    'triggers',
    'apply',
  );

const disableTriggers: StoreChange = (store, { random }) => {
  const table = anyTable(store, random);
  const verb = random.pick(['disable', 'enable always', 'enable replica', 'enable']);
  const trigger = `map_${random.pick(events)}`;
  return {
    name: `${verb} a trigger`,
    transactions: [
      [
        random.chance(0.4)
          ? `alter table ${table} disable trigger user`
          : `do $do$ begin alter table ${table} ${verb} trigger ${trigger}; exception when undefined_object then null; end $do$`,
      ],
    ],
    needs: ['triggers', 'apply'],
  };
};

/** As before and after a bulk write. */
const disableTriggersForAWhile: StoreChange = (store, { random }) => {
  const table = anyTable(store, random);
  const statements = [
    `alter table ${table} disable trigger user`,
    `alter table ${table} enable trigger user`,
  ];
  return {
    name: 'disable triggers, and enable them',
    transactions: random.chance(0.5) ? [statements] : statements.map((each) => [each]),
    needs: [],
  };
};

const dropFunction: StoreChange = (_store, { random }) =>
  change(
    'drop a trigger function',
    [
      `do $do$ declare dropped text; begin
         for dropped in select oid::regprocedure from pg_proc where proname like 'map_rows_of %' order by proname limit 1 offset ${random.integer(4)} loop
           execute format('drop function %s cascade', dropped);
         end loop;
       end $do$`,
    ],
    'sources',
    'triggers',
    'apply',
  );

const changeOwner: StoreChange = (store, { random, roles }) => {
  const owners = [
    roles.owner,
    roles.writer,
    ...(roles.migrations === null ? [] : [roles.migrations]),
  ];
  return change(
    'change an owner',
    [`alter table ${anyTable(store, random)} owner to ${quote(random.pick(owners))}`],
    'rights',
  );
};

const revoke: StoreChange = (store, { random, roles }) => {
  const { migrations, worker } = roles;
  if (migrations === null || worker === null) return null;
  const table = anyTable(store, random);
  const statement = random.pick([
    `revoke select on ${table} from ${quote(migrations)}`,
    `revoke trigger on ${table} from ${quote(migrations)}`,
    `revoke all on ${table} from ${quote(migrations)}`,
    `revoke usage on schema store from ${quote(migrations)}`,
    `revoke usage on schema store from ${quote(worker)}`,
    `revoke select on ${table} from ${quote(worker)}`,
    `revoke select on mapped_purchases from ${quote(worker)}`,
    `revoke execute on function store.fee(numeric) from public`,
  ]);
  return change(statement, [statement], 'rights', 'triggers', 'apply');
};

const enablePolicies: StoreChange = (store, { random }) => {
  const table = tableOf(
    store,
    random.pick(['clients', 'lines', 'labels', 'orders'] satisfies TableName[]),
  );
  return change(
    'enable row security',
    [
      `drop policy if exists everything on ${table}`,
      `create policy everything on ${table} using (true)`,
      `alter table ${table} enable row level security`,
      ...(random.chance(0.3) ? [`alter table ${table} force row level security`] : []),
    ],
    'policies',
    'apply',
  );
};

export const disablePolicies = (store: Store): string[] =>
  tableNames.map(
    (name) =>
      `alter table ${tableOf(store, name)} disable row level security, no force row level security`,
  );

/** Rights of the documents, and of the shop's own roles. */
export function grants({ owner, writer, visitor, migrations, worker }: Roles): string[] {
  const schemas = 'store, "Store two"';
  const tables = `all tables in schema ${schemas}`;
  return [
    `grant usage on schema ${schemas} to ${[owner, writer, visitor, ...(migrations ? [migrations] : []), ...(worker ? [worker] : [])].map(quote).join(', ')}`,
    `grant select, insert, update, delete, truncate on ${tables} to ${quote(writer)}, ${quote(owner)}`,
    `grant insert on ${tables} to ${quote(visitor)}`,
    'grant execute on function store.fee(numeric) to public',
    ...(migrations === null ? [] : [`grant select, trigger on ${tables} to ${quote(migrations)}`]),
    ...(worker === null ? [] : [`grant select on ${tables} to ${quote(worker)}`]),
  ];
}

export const rightChanges: readonly StoreChange[] = [
  dropTrigger,
  disableTriggers,
  disableTriggersForAWhile,
  dropFunction,
  changeOwner,
  revoke,
  enablePolicies,
];
