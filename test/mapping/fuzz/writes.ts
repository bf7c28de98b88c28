import type { RandomSource } from '../../../src/seed/random-source.ts';
import { insertOrders, newOrders, orderColumns } from './orders.ts';
import { type Column, column, inStore, quote, type Store, tableOf, typeOf } from './store.ts';

// Statements of the shop. None of them may fail because of the mapping.

export type Write = { readonly name: string; readonly statement: string };

export type Writing = {
  readonly store: Store;
  readonly random: RandomSource;
  readonly reserve: (count: number) => number;
  readonly lastId: () => number;
};

const between = (id: string, from: number, count: number): string =>
  `${id}::text::numeric between ${from} and ${from + count}`;

const cast = (value: string, { type }: Column): string => `(${value})::text::${type}`;

/** Only inserts, without reading. */
export function insertOnly({ store, random, reserve }: Writing): Write {
  const count = random.chance(0.3) ? 1 + random.integer(200) : 1;
  const id = reserve(count);
  const choice = random.fraction();
  if (choice < 0.5) {
    const { month } = random.pick(store.partitions);
    return {
      name: `insert ${count} orders`,
      statement: insertOrders(store, tableOf(store, 'orders'), id, count, month, random),
    };
  }
  if (choice < 0.6) {
    const { month, name } = random.pick(store.partitions);
    return {
      name: `insert ${count} orders into a partition`,
      statement: insertOrders(store, inStore(name), id, count, month, random),
    };
  }
  const { columns } = store.clients;
  if (choice < 0.8) {
    return {
      name: `insert ${count} clients`,
      statement: `insert into ${store.child !== null && random.chance(0.5) ? inStore(store.child) : tableOf(store, 'clients')}
        (${quote(columns.id.name)}, ${quote(columns.name.name)}, ${quote(columns.joined.name)}, ${quote(columns.site.name)})
        select ${cast('n', columns.id)}, 'Client ' || n, '2026-03-01 10:00', ${cast('1 + n % 5 / 4', columns.site)}
        from generate_series(${id}, ${id + count - 1}) as n`,
    };
  }
  const lines = store.lines.columns;
  return {
    name: 'insert lines',
    statement: `insert into ${tableOf(store, 'lines')} (${quote(lines.order.name)}, ${quote(lines.cents.name)}, ${quote(lines.label.name)})
      select ${cast(`n * ${1 + random.integer(5)} % ${id}`, lines.order)}, ${cast('n % 100', lines.cents)}, null
      from generate_series(1, ${random.integer(50)}) as n`,
  };
}

function updateOrders({ store, random, lastId }: Writing): Write {
  const of = (name: keyof Store['orders']['columns']) => column(store, 'orders', name);
  const type = (name: keyof Store['orders']['columns']) => store.orders.columns[name];
  const partition = random.pick(store.partitions);
  const table = random.chance(0.25) ? inStore(partition.name) : tableOf(store, 'orders');
  const change = random.pick([
    `${of('cents')} = ${cast(`${of('cents')}::numeric + 1`, type('cents'))}`,
    `${of('state')} = '${random.pick(store.states)}'`,
    `${of('client')} = ${cast(`${random.integer(300)}`, type('client'))}`,
    `${of('client')} = null`,
    `${of('site')} = ${1 + random.integer(2)}`,
    `${of('hidden')} = not ${of('hidden')}`,
    `${of('placed')} = ${of('placed')} + interval '1 hour'`,
    // Moves the row to another partition.
    ...(table === tableOf(store, 'orders')
      ? [`${of('month')} = ${random.pick(store.partitions).month}`]
      : []),
  ]);
  return {
    name: 'update orders',
    statement: `update ${table} set ${change} where ${between(of('id'), random.integer(lastId()), random.chance(0.1) ? 400 : random.integer(20))} and ${of('note')} = 'v0'`,
  };
}

function changeKeys({ store, random, reserve, lastId }: Writing): Write {
  const table = random.pick(['orders', 'clients'] as const);
  const id = column(store, table, 'id');
  const note = table === 'orders' ? `and ${column(store, 'orders', 'note')} = 'v0'` : '';
  const count = random.integer(10);
  const [from, to] = [random.integer(lastId()), reserve(count + 1)];
  return {
    name: `change keys of ${table}`,
    statement: `update ${tableOf(store, table)} set ${id} = ${cast(`${id}::text::numeric + ${to - from}`, { name: '', type: typeOf(store, table, 'id') })}
      where ${between(id, from, count)} ${note}`,
  };
}

function updateOthers({ store, random, lastId }: Writing): Write {
  const client = (name: keyof Store['clients']['columns']) => column(store, 'clients', name);
  const label = (name: keyof Store['labels']['columns']) => column(store, 'labels', name);
  const line = (name: keyof Store['lines']['columns']) => column(store, 'lines', name);
  const { lines } = store;
  const range = between(
    client('id'),
    random.integer(random.chance(0.5) ? 320 : lastId()),
    random.integer(20),
  );
  const statements = [
    `update ${tableOf(store, 'clients')} set ${client('name')} = left(${client('name')} || '!', 40) where ${range}`,
    `update ${tableOf(store, 'clients')} set ${client('site')} = ${1 + random.integer(2)} where ${range}`,
    `delete from ${tableOf(store, 'clients')} where ${range}`,
    `update ${tableOf(store, 'labels')} set ${label('name')} = left(${label('name')} || '+', 40) where ${between(label('id'), random.integer(20), 2)}`,
    `delete from ${tableOf(store, 'labels')} where ${between(label('id'), random.integer(40), 0)}`,
    `insert into ${tableOf(store, 'labels')} (${label('id')}, ${label('name')}) values ('${1 + random.integer(30)}', 'new')
     on conflict (${label('id')}) do update set ${label('name')} = 'merged'`,
    `update ${tableOf(store, 'lines')} set ${line('cents')} = ${cast(`${line('cents')}::numeric + 1`, lines.columns.cents)}
     where ${between(line('order'), random.integer(lastId()), 30)}`,
    `update ${tableOf(store, 'lines')} set ${line('order')} = ${cast(`${line('order')}::text::numeric + 1`, lines.columns.order)}
     where ${between(line('order'), random.integer(lastId()), 30)}`,
    `delete from ${tableOf(store, 'lines')} where ${between(line('order'), random.integer(lastId()), 30)}`,
  ];
  const statement = random.pick(statements);
  return { name: statement.slice(0, 40), statement };
}

function deleteOrders({ store, random, lastId }: Writing): Write {
  const id = column(store, 'orders', 'id');
  return {
    name: 'delete orders',
    statement: `delete from ${tableOf(store, 'orders')} where ${between(id, random.integer(lastId()), random.integer(15))} and ${column(store, 'orders', 'note')} = 'v0'`,
  };
}

/** Of orders that exist, so that no other month has the same id, and of new ones. */
function upsertOrders(writing: Writing): Write {
  const { store, random, reserve, lastId } = writing;
  const of = (name: keyof Store['orders']['columns']) => column(store, 'orders', name);
  const orders = tableOf(store, 'orders');
  const known = `select ${orderColumns(store)} from ${orders}
    where ${between(of('id'), random.integer(lastId()), random.integer(30))} and ${of('note')} = 'v0' for update`;
  const count = 1 + random.integer(20);
  const { month } = random.pick(store.partitions);
  const { cents } = store.orders.columns;
  const update = `${of('cents')} = ${cast(`o.${of('cents')}::numeric + 1`, cents)}, ${of('state')} = '${random.pick(store.states)}'`;
  return {
    name: 'upsert orders',
    statement: `with known as (${known}) insert into ${orders} as o (${orderColumns(store)})
      select * from known union all (${newOrders(store, reserve(count), count, month, random)})
      on conflict (${of('id')}, ${of('month')}) do ${random.chance(0.2) ? 'nothing' : `update set ${update}`}`,
  };
}

function mergeOrders(writing: Writing): Write {
  const { store, random, lastId } = writing;
  const of = (name: keyof Store['orders']['columns']) => column(store, 'orders', name);
  const { cents } = store.orders.columns;
  return {
    name: 'merge orders',
    statement: `merge into ${tableOf(store, 'orders')} as o using generate_series(${random.integer(lastId())}, ${lastId() + 5}, 37) as n
      on o.${of('id')}::text = n::text
      when matched and n % 3 = 0 and o.${of('note')} = 'v0' then delete
      when matched and o.${of('note')} = 'v0' then update set ${of('cents')} = ${cast('n % 1000', cents)}`,
  };
}

/** Copied by the server. */
function copyLines({ store, random, lastId }: Writing): Write {
  const { columns } = store.lines;
  const rows = Array.from(
    { length: random.integer(30) },
    () => `${1 + random.integer(lastId())} ${random.integer(100)} 1`,
  );
  return {
    name: 'copy lines',
    statement: `copy ${tableOf(store, 'lines')} (${quote(columns.order.name)}, ${quote(columns.cents.name)}, ${quote(columns.label.name)})
      from program 'printf "${rows.map((row) => `${row}\\n`).join('')}"' (delimiter ' ')`,
  };
}

function truncate({ store, random }: Writing): Write {
  const removable = store.partitions.filter(({ isKept }) => !isKept);
  const tables = [
    tableOf(store, 'lines'),
    ...(random.chance(0.2) ? [tableOf(store, 'clients')] : []),
    ...removable.map(({ name }) => inStore(name)),
  ];
  return { name: 'truncate', statement: `truncate ${random.pick(tables)}` };
}

/** A write within a block that catches its exception, and one that is rolled back by another one. */
function inBlock(write: Write, random: RandomSource): Write {
  const end = random.chance(0.3) ? 'perform 1 / 0;' : '';
  return {
    name: `${write.name} in a block`,
    statement: `do $do$ begin ${write.statement.replaceAll('$do$', '')}; ${end} exception when division_by_zero then null; end $do$`,
  };
}

/** Of a superuser, or a role that may read and write the tables. */
export function anyWrite(writing: Writing, isSuperuser: boolean): Write {
  const { random } = writing;
  const choice = random.fraction();
  if (isSuperuser && choice < 0.05) return copyLines(writing);
  if (isSuperuser && choice < 0.06) return truncate(writing);
  const write = random.pick([
    ...[
      insertOnly,
      insertOnly,
      insertOnly,
      updateOrders,
      updateOrders,
      updateOrders,
      updateOthers,
      updateOthers,
    ],
    ...[updateOthers, deleteOrders, upsertOrders, mergeOrders, changeKeys],
  ])(writing);
  return random.chance(0.1) ? inBlock(write, random) : write;
}
