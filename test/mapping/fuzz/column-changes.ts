import type { RandomSource } from '../../../src/seed/random-source.ts';
import { change, type StoreChange } from './change.ts';
import {
  type Column,
  column,
  inStore,
  newName,
  quote,
  type Store,
  type TableName,
  tableNames,
  tableOf,
} from './store.ts';
import { withoutViews } from './view-changes.ts';

// Columns of the shop's tables.

const freeName = (store: Store, random: RandomSource, table: TableName): string => {
  const taken = [
    ...Object.values<Column>(store[table].columns).map(({ name }) => name),
    ...store[table].extras,
  ];
  for (;;) {
    const name = newName(store, random);
    if (!taken.includes(name)) return name;
  }
};

const addColumn: StoreChange = (store, { random }) => {
  const table = random.pick(tableNames);
  const name = freeName(store, random, table);
  store[table].extras.push(name);
  const of = column(
    store,
    table,
    table === 'lines'
      ? ('cents' as never)
      : (('name' in store[table].columns ? 'name' : 'cents') as never),
  );
  const definition = random.pick([
    'int',
    'int not null default 7',
    'timestamptz not null default clock_timestamp()',
    `text generated always as (${of}::text || '!') stored`,
    'jsonb',
  ]);
  store.detached.length = table === 'orders' ? 0 : store.detached.length;
  return change(`add column to ${table}`, [
    `alter table ${tableOf(store, table)} add column ${quote(name)} ${definition}`,
  ]);
};

const dropColumn: StoreChange = (store, { random }) => {
  const table = random.pick(tableNames);
  const name = store[table].extras.pop();
  if (name === undefined) return null;
  if (table === 'orders') store.detached.length = 0;
  return change(`drop column of ${table}`, [
    `alter table ${tableOf(store, table)} drop column ${quote(name)} cascade`,
  ]);
};

const renameColumn: StoreChange = (store, { random }) => {
  const table = random.pick(tableNames);
  const columns = store[table].columns as Record<string, Column>;
  const meaning = random.pick(Object.keys(columns));
  const { name: before, type } = columns[meaning] as Column;
  const after = freeName(store, random, table);
  const statement = `alter table ${tableOf(store, table)} rename column ${quote(before)} to ${quote(after)}`;
  columns[meaning] = { name: after, type };
  if (table === 'orders') store.detached.length = 0;
  const isKey = ['id', 'order', 'label'].includes(meaning);
  return change(
    `rename ${table}.${meaning} to ${after}`,
    [statement],
    ...(isKey ? (['sources', 'triggers', 'apply'] as const) : []),
  );
};

export const dropLinks = (store: Store): string[] => [
  `alter table ${tableOf(store, 'lines')} drop constraint if exists "link to labels"`,
  `alter table ${tableOf(store, 'orders')} drop constraint if exists "link to clients"`,
];

const typesOf: Readonly<Record<string, readonly string[]>> = {
  ...{ id: ['int', 'bigint', 'text', 'numeric'], client: ['int', 'bigint', 'text', 'numeric'] },
  ...{ order: ['int', 'bigint', 'text', 'numeric'], label: ['int', 'bigint', 'text'] },
  ...{ cents: ['int', 'bigint', 'text', 'numeric'], state: ['store.state', 'text'] },
  ...{ placed: ['timestamp', 'timestamptz'], joined: ['timestamp', 'timestamptz'] },
  ...{
    name: ['text', 'varchar(200)'],
    note: ['text', 'varchar(200)'],
    site: ['int', 'bigint', 'smallint'],
  },
};

const changeType: StoreChange = (store, circumstances) => {
  const { random } = circumstances;
  const table = random.pick(tableNames);
  const columns = store[table].columns as Record<string, Column>;
  const meaning = random.pick(Object.keys(columns));
  const known = columns[meaning] as Column;
  const others = (typesOf[meaning] ?? []).filter((type) => type !== known.type);
  if (others.length === 0) return null;
  const type = random.pick(others);
  const name = quote(known.name);
  const value = type.startsWith('timestamp')
    ? `${name} at time zone 'America/Sao_Paulo'`
    : `${name}::text::${type}`;
  const before = tableOf(store, table);
  const statements = [
    ...dropLinks(store),
    ...store[table].extras.map(
      (extra) => `alter table ${before} drop column ${quote(extra)} cascade`,
    ),
    `drop index if exists ${store.indexes.map(inStore).join(', ') || 'store.none'}`,
    `alter table ${before} alter column ${name} type ${type} using ${value}`,
  ];
  store[table].extras.length = 0;
  store.indexes.length = 0;
  if (table === 'orders') store.detached.length = 0;
  columns[meaning] = { name: known.name, type };
  return withoutViews(
    `change ${table}.${meaning} from ${known.type} to ${type}`,
    statements,
    store,
    circumstances,
  );
};

export const columnChanges: readonly (readonly [weight: number, StoreChange])[] = [
  [4, addColumn],
  [3, dropColumn],
  [7, renameColumn],
  [7, changeType],
];
