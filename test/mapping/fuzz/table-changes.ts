import pg from 'pg';
import { change, type StoreChange } from './change.ts';
import { dropLinks } from './column-changes.ts';
import { column, inStore, quote, tableNames, tableOf, typeOf } from './store.ts';

// Tables, and what they have beside columns.

const { escapeLiteral } = pg;

const renameLabelOfEnum: StoreChange = (store, { random }) => {
  if (typeOf(store, 'orders', 'state') !== 'store.state') return null;
  const index = random.integer(store.states.length);
  const before = store.states[index] as string;
  store.names += 1;
  const after = `state ${store.names}`;
  store.states[index] = after;
  return change('rename a label of an enum', [
    `alter type store.state rename value ${escapeLiteral(before)} to ${escapeLiteral(after)}`,
  ]);
};

const addLabelOfEnum: StoreChange = (store, { random }) => {
  if (store.states.length > 8) return null;
  store.names += 1;
  const name = `state ${store.names}`;
  const place = random.chance(0.5) ? '' : `before ${escapeLiteral(store.states[0] as string)}`;
  store.states.push(name);
  return change('add a label to an enum', [
    `alter type store.state add value ${escapeLiteral(name)} ${place}`,
  ]);
};

const renameTable: StoreChange = (store, { random }) => {
  const table = random.pick(tableNames);
  const before = tableOf(store, table);
  store.names += 1;
  const name = `${random.pick(['Orders', 'found', 'new_rows', 'a"b', 'x.y', 'old_rows', 'mapped_keys'])} ${store.names}`;
  const statements = [
    `alter table ${before} rename to ${quote(random.chance(0.3) ? `t${store.names}` : name)}`,
  ];
  store[table].name = statements[0]?.includes(`"t${store.names}"`) ? `t${store.names}` : name;
  if (random.chance(0.3)) {
    const schema = store[table].schema === 'store' ? 'Store two' : 'store';
    statements.push(`alter table ${tableOf(store, table)} set schema ${quote(schema)}`);
    store[table].schema = schema;
  }
  return change(
    `rename ${table} to ${tableOf(store, table)}`,
    statements,
    'sources',
    'triggers',
    'apply',
  );
};

const castKeys: StoreChange = (store) => {
  store.areKeysCast = !store.areKeysCast;
  return change('change keys of sources', [], 'sources', 'triggers', 'apply');
};

const addIndex: StoreChange = (store, { random }) => {
  store.names += 1;
  const name = `index ${store.names}`;
  store.indexes.push(name);
  const cents = column(store, 'lines', 'cents');
  const statement = random
    .pick([
      `create index ${quote(name)} on store_lines (${cents})`,
      `create index ${quote(name)} on store_lines ((${cents}::numeric + 1)) where ${cents} is not null`,
    ])
    .replace('store_lines', () => tableOf(store, 'lines'));
  store.indexes.pop();
  if (store.lines.schema === 'store') store.indexes.push(name);
  else return null;
  return change('add an index', [statement]);
};

const changeConstraint: StoreChange = (store, { random }) => {
  const lines = tableOf(store, 'lines');
  const clients = tableOf(store, 'clients');
  const [label, label2] = [column(store, 'lines', 'label'), column(store, 'labels', 'id')];
  const areOfOneType = typeOf(store, 'lines', 'label') === typeOf(store, 'labels', 'id');
  const areClients = typeOf(store, 'orders', 'client') === typeOf(store, 'clients', 'id');
  const onDelete = random.pick(['cascade', 'set null']);
  const client = column(store, 'orders', 'client');
  const statements = random.pick([
    dropLinks(store),
    areOfOneType
      ? [
          `update ${lines} set ${label} = null where ${label} not in (select ${label2} from ${tableOf(store, 'labels')})`,
          `alter table ${lines} drop constraint if exists "link to labels"`,
          `alter table ${lines} add constraint "link to labels" foreign key (${label}) references ${tableOf(store, 'labels')} on delete ${onDelete} on update cascade`,
        ]
      : [],
    areClients && store.child === null
      ? [
          `update ${tableOf(store, 'orders')} set ${client} = null where ${client} not in (select ${column(store, 'clients', 'id')} from ${clients})`,
          `alter table ${tableOf(store, 'orders')} drop constraint if exists "link to clients"`,
          `alter table ${tableOf(store, 'orders')} add constraint "link to clients" foreign key (${client}) references ${clients} on delete ${onDelete} on update cascade`,
        ]
      : [],
    [
      `alter table ${lines} drop constraint if exists "not negative"`,
      `alter table ${lines} add constraint "not negative" check (${column(store, 'lines', 'cents')}::numeric > -1000) not valid`,
    ],
    [`alter table ${lines} replica identity full`],
    [
      `alter table ${clients} alter column ${column(store, 'clients', 'name')} set default 'nobody'`,
    ],
  ]);
  return statements.length === 0 ? null : change('change constraints', statements);
};

const rewriteTable: StoreChange = (store, { random }) => {
  const table = random.pick(['clients', 'lines', 'labels'] as const);
  const name = tableOf(store, table);
  const statement = random.pick([
    `vacuum full ${name}`,
    `alter table ${name} set (fillfactor = 50)`,
    `reindex table ${name}`,
    `analyze ${name}`,
  ]);
  return change(statement, [statement]);
};

const changeChild: StoreChange = (store, { random, roles }) => {
  const clients = tableOf(store, 'clients');
  if (store.child !== null) {
    const child = store.child;
    store.child = null;
    const statements = random.chance(0.5)
      ? [`drop table ${inStore(child)}`]
      : [`alter table ${inStore(child)} no inherit ${clients}`];
    return change('remove a child of clients', statements);
  }
  store.names += 1;
  store.child = `child ${store.names}`;
  return change(
    'add a child of clients',
    [
      ...dropLinks(store),
      `create table ${inStore(store.child)} () inherits (${clients})`,
      `grant select, insert, update, delete on ${inStore(store.child)} to ${quote(roles.writer)}`,
    ],
    'rights',
    'triggers',
    'apply',
  );
};

export const tableChanges: readonly (readonly [weight: number, StoreChange])[] = [
  [2, renameLabelOfEnum],
  [1, addLabelOfEnum],
  [4, renameTable],
  [2, castKeys],
  [2, addIndex],
  [3, changeConstraint],
  [2, rewriteTable],
  [2, changeChild],
];
