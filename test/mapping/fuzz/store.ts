import pg from 'pg';
import type { RandomSource } from '../../../src/seed/random-source.ts';

const { escapeLiteral } = pg;

/** The present names and types of the shop's tables. */
export type Column = { name: string; type: string };

type Table<Name extends string> = {
  schema: string;
  name: string;
  readonly columns: Record<Name, Column>;
  /** Columns that no view reads. */
  readonly extras: string[];
};

export type Partition = {
  readonly name: string;
  readonly month: number;
  /** Canaries are in it: it is never detached, dropped or truncated. */
  readonly isKept: boolean;
};

export type Store = {
  readonly clients: Table<'id' | 'name' | 'joined' | 'site'>;
  readonly orders: Table<
    'id' | 'client' | 'cents' | 'state' | 'placed' | 'month' | 'note' | 'site' | 'hidden'
  >;
  readonly lines: Table<'order' | 'cents' | 'label'>;
  readonly labels: Table<'id' | 'name'>;
  readonly partitions: Partition[];
  /** Tables with the columns of orders that are no partitions, by name. */
  readonly detached: Partition[];
  /** Labels of the enum store.state. */
  readonly states: string[];
  /** What the function store.fee adds. */
  fee: number;
  /** The view store.shown leaves out orders of less. */
  minCents: number;
  child: string | null;
  /** Expressions of keys, instead of columns. */
  areKeysCast: boolean;
  indexes: string[];
  /** Makes names unique. */
  names: number;
};

export type TableName = 'clients' | 'orders' | 'lines' | 'labels';
export const tableNames = ['clients', 'orders', 'lines', 'labels'] as const;

/** Organizations of the two sites. */
export type Sites = { readonly first: bigint; readonly second: bigint };

export const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;
export const tableOf = (store: Store, name: TableName): string =>
  `${quote(store[name].schema)}.${quote(store[name].name)}`;
export const inStore = (name: string): string => `store.${quote(name)}`;

/** Names of columns and tables that SQL and trigger functions use for other things. */
export const awkwardNames = [
  ...[
    'found',
    'new_rows',
    'old_rows',
    'tg_op',
    'mapped_key',
    'mapped_keys',
    'changed',
    'row',
    'key',
    'view',
    'select',
  ],
  ...[
    'user',
    'Order No',
    'ação',
    'a"b',
    'source',
    'reason',
    'new',
    'old',
    'x.y',
    "it's",
    '$1',
    '$$',
    '%I',
  ],
];

export const firstStore = (): Store => ({
  clients: {
    schema: 'store',
    name: 'clients',
    columns: {
      id: { name: 'id', type: 'int' },
      name: { name: 'name', type: 'text' },
      joined: { name: 'joined', type: 'timestamp' },
      site: { name: 'site', type: 'int' },
    },
    extras: [],
  },
  orders: {
    schema: 'store',
    name: 'orders',
    columns: {
      id: { name: 'id', type: 'int' },
      client: { name: 'client_id', type: 'int' },
      cents: { name: 'cents', type: 'int' },
      state: { name: 'state', type: 'store.state' },
      placed: { name: 'placed', type: 'timestamptz' },
      month: { name: 'month', type: 'int' },
      note: { name: 'note', type: 'text' },
      site: { name: 'site', type: 'int' },
      hidden: { name: 'hidden', type: 'boolean' },
    },
    extras: [],
  },
  lines: {
    schema: 'store',
    name: 'lines',
    columns: {
      order: { name: 'order_id', type: 'int' },
      cents: { name: 'cents', type: 'int' },
      label: { name: 'label_id', type: 'int' },
    },
    extras: [],
  },
  labels: {
    schema: 'store',
    name: 'labels',
    columns: { id: { name: 'id', type: 'int' }, name: { name: 'name', type: 'text' } },
    extras: [],
  },
  partitions: [
    { name: 'orders_1', month: 1, isKept: false },
    { name: 'orders_2', month: 2, isKept: false },
    { name: 'orders_3', month: 3, isKept: true },
  ],
  detached: [],
  states: ['open', 'paid', 'void'],
  fee: 5,
  minCents: 0,
  child: null,
  areKeysCast: false,
  indexes: [],
  names: 0,
});

/** Reads columns by their meaning: `column(store, 'orders', 'id', 'o')`. */
export function column<Name extends TableName>(
  store: Store,
  table: Name,
  name: keyof Store[Name]['columns'] & string,
  alias?: string,
): string {
  const columns = store[table].columns as Record<string, Column>;
  const quoted = quote((columns[name] as Column).name);
  return alias === undefined ? quoted : `${alias}.${quoted}`;
}

export const typeOf = <Name extends TableName>(
  store: Store,
  table: Name,
  name: keyof Store[Name]['columns'] & string,
): string => ((store[table].columns as Record<string, Column>)[name] as Column).type;

export function createTables(store: Store): string {
  const tables = tableNames.map((name) => {
    const columns = Object.entries<Column>(store[name].columns).map(
      ([, each]) => `${quote(each.name)} ${each.type}`,
    );
    return name === 'orders'
      ? `create table ${tableOf(store, name)} (${columns.join(', ')}, primary key (id, month)) partition by list (month);`
      : `create table ${tableOf(store, name)} (${columns.join(', ')}${name === 'lines' ? '' : ', primary key (id)'});`;
  });
  const partitions = store.partitions.map(
    ({ name, month }) =>
      `create table ${inStore(name)} partition of store.orders for values in (${month});`,
  );
  return `
    create type store.state as enum (${store.states.map((state) => escapeLiteral(state)).join(', ')});
    ${tables.join('\n')} ${partitions.join('\n')}
    create index on store.lines (order_id); create index on store.lines (label_id);
    create index on store.lines ((order_id::text)); create index on store.lines ((label_id::text));
    create index on store.labels ((id::text));`;
}

export const firstRows = (clients: number, orders: number): string => `
  insert into store.clients select n, 'Client ' || n, '2026-01-01', 1 + n % 5 / 4 from generate_series(1, ${clients}) as n;
  insert into store.labels select n, 'label ' || n from generate_series(1, 20) as n;
  insert into store.orders
  select n, nullif(1 + n % ${clients + 20}, 7), n * 7 % 500, 'open', timestamptz '2026-01-01Z' + n * interval '1 minute',
    case when n % 7 < 5 then 1 when n % 7 = 5 then 2 else 3 end, 'v0', 1 + n % 5 / 4, n % 13 = 0
  from generate_series(1, ${orders}) as n;
  insert into store.lines select n, n % 90, 1 + n % 20 from generate_series(1, ${orders}) as n where n % 3 = 0;
  analyze`;

/** A new name, which is awkward or simple. */
export function newName(store: Store, random: RandomSource): string {
  store.names += 1;
  return random.chance(0.5)
    ? `${random.pick(awkwardNames)} ${store.names}`
    : random.chance(0.5)
      ? `name_${store.names}`
      : `${random.pick(awkwardNames)}`;
}
