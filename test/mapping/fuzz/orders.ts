import type { RandomSource } from '../../../src/seed/random-source.ts';
import { column, type Store } from './store.ts';

const names = [
  ...(['id', 'client', 'cents', 'state', 'placed', 'month', 'note', 'site', 'hidden'] as const),
];

/** The columns of orders in the order of `newOrders`. */
export const orderColumns = (store: Store): string =>
  names.map((name) => column(store, 'orders', name)).join(', ');

/** A query of orders with ids of a range. */
export function newOrders(
  store: Store,
  from: number,
  count: number,
  month: number,
  random: Pick<RandomSource, 'integer' | 'pick'>,
): string {
  const { columns } = store.orders;
  const values = {
    id: 'n',
    client: `nullif(n % ${20 + random.integer(300)}, 0)`,
    cents: `n % ${1 + random.integer(5_000)}`,
    state: `'${random.pick(store.states)}'`,
    placed: `timestamptz '2026-02-01Z' + n * interval '1 minute'`,
    month: `${month}`,
    note: `'v0'`,
    site: '1 + n % 4 / 3',
    hidden: 'n % 11 = 0',
  };
  const value = (name: keyof typeof values): string => {
    if (name !== 'placed') return `(${values[name]})::text::${columns[name].type}`;
    return columns.placed.type === 'timestamptz'
      ? values.placed
      : `(${values.placed}) at time zone 'UTC'`;
  };
  return `select ${names.map(value).join(', ')} from generate_series(${from}, ${from + count - 1}) as n`;
}

/** An insert of `newOrders` into a table with the columns of orders. */
export const insertOrders = (
  store: Store,
  table: string,
  ...orders: [from: number, count: number, month: number, Pick<RandomSource, 'integer' | 'pick'>]
): string => `insert into ${table} (${orderColumns(store)}) ${newOrders(store, ...orders)}`;
