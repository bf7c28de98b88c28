import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns } from '../domain/purchase.ts';
import { queryRows, runStatement } from '../duckdb/connection.ts';
import {
  customerDictionary,
  type Dictionary,
  labelDictionary,
  noLabel,
} from '../purchase-store/layout.ts';
import { writeCoupons } from '../resources/purchase-table.ts';
import { fillTable, type Row } from './fill-table.ts';
import { createIdSpellings, idSql } from './id-sql.ts';
import type { Part } from './parts.ts';

/** What makes up a value, one after another: put together only once, copied only once. */
export type Pieces = readonly Sql[];
type Present = (value: Sql) => Pieces;

export const whole = (pieces: Pieces): Sql =>
  pieces.length === 1 ? (pieces[0] as Sql) : sql`concat(${join(pieces, ', ')})`;

/** The rows of an export, in SQL. */
export type Projection = {
  /** Of each column of `purchaseTable`. */
  readonly columns: readonly Pieces[];
  /** What follows `from`, the conditions included. */
  readonly from: Sql;
  /** As many as match: rows may be fewer, where a dictionary lacks what they refer to. */
  readonly purchases: bigint;
};

/**
 * What an attached file's purchases show of the columns of `purchaseTable`: texts, bigints
 * and timestamps, as `present` makes of them whatever the format needs. Of texts that
 * repeat it is asked once each, and thus of all a label's values rather than of all rows.
 * What it shows is true until the next call on the same connection, which replaces its tables.
 */
export async function createProjection(
  connection: DuckDBConnection,
  catalog: string,
  { condition: matching, isPart }: Part,
  present: (value: Sql, index: number) => Pieces,
): Promise<Projection> {
  await createIdSpellings(connection);
  const columns: Pieces[] = [];
  const joins: Sql[] = [];
  for (const [index, column] of purchaseColumns.entries()) {
    const used = (key: string): Sql =>
      isPart
        ? sql`where key in (select ${raw(key)} from ${raw(catalog)}.purchase where ${matching})`
        : empty;
    const shown = await showColumn(connection, { catalog, matching, used }, column, (value) =>
      present(value, index),
    );
    columns.push(shown.shown);
    joins.push(shown.join);
  }
  const from = sql`${raw(catalog)}.purchase ${join(joins, ' ')} where ${matching}`;
  const [counted] = await queryRows(
    connection,
    sql`select count(*) from ${raw(catalog)}.purchase where ${matching}`,
  );
  return { columns, from, purchases: counted?.[0] as bigint };
}

type Source = {
  readonly catalog: string;
  readonly matching: Sql;
  /** Leaves of a dictionary the keys that a column of the purchases holds. */
  readonly used: (key: string) => Sql;
};

async function showColumn(
  connection: DuckDBConnection,
  { catalog, matching, used }: Source,
  { name, kind }: PurchaseColumn,
  present: Present,
): Promise<{ readonly shown: Pieces; readonly join: Sql }> {
  const stored = sql`purchase.${raw(name)}`;
  switch (kind) {
    case 'purchase_id': {
      const ids = { catalog, table: 'purchase', column: name };
      const { shown, join } = await idSql(connection, 'purchase', ids);
      return { shown: present(shown), join };
    }
    case 'customer_id': {
      const ids = { catalog, table: customerDictionary.table, column: customerDictionary.value };
      const { shown, join } = await idSql(connection, 'customer', ids);
      const rows = sql`
        select key, ${whole(present(shown))} as shown from ${raw(`${catalog}.${ids.table}`)} ${join}
        ${used(customerDictionary.key)}`;
      return showByKey(connection, customerDictionary, rows);
    }
    case 'label': {
      const dictionary = labelDictionary(name);
      const rows = sql`
        select key, ${whole(present(sql`value`))} as shown from ${raw(`${catalog}.${dictionary.table}`)}
        ${used(dictionary.key)}
        union all
        select ${raw(String(noLabel))}::integer, ${whole(present(sql`null::varchar`))}`;
      return showByKey(connection, dictionary, rows);
    }
    case 'coupons': {
      const found = sql`
        select distinct ${stored} as stored from ${raw(catalog)}.purchase
        where ${stored} is not null and ${matching}`;
      const written = writtenCoupons(connection, found);
      await fillTable(
        connection,
        'written_coupons',
        ['stored varchar', 'written varchar'],
        written,
      );
      await runStatement(
        connection,
        sql`create or replace temp table shown_coupons as
          select stored, ${whole(present(sql`written`))} as shown from written_coupons`,
      );
      await runStatement(connection, sql`drop table written_coupons`);
      return {
        shown: [sql`coalesce(shown_coupons.shown, ${whole(present(sql`null::varchar`))})`],
        join: sql`left join shown_coupons on shown_coupons.stored = ${stored}`,
      };
    }
    default:
      return { shown: present(stored), join: empty };
  }
}

/** Creates a table of what each key of a dictionary shows, of rows of `key` and `shown`. */
async function showByKey(connection: DuckDBConnection, { name, key }: Dictionary, rows: Sql) {
  const table = raw(`shown_${name}`);
  await runStatement(connection, sql`create or replace temp table ${table} as ${rows}`);
  return {
    shown: [sql`${table}.shown`],
    join: sql`join ${table} on ${table}.key = purchase.${raw(key)}`,
  };
}

const couponsAtOnce = 10_000n;

/**
 * Pairs of stored and shown coupons, some thousands at a time. In statements of their own:
 * a stream would end early once the table that they go to is written, without a word.
 */
async function* writtenCoupons(connection: DuckDBConnection, found: Sql): AsyncGenerator<Row[]> {
  await runStatement(connection, sql`create or replace temp table stored_coupons as ${found}`);
  for (let begin = 0n; ; begin += couponsAtOnce) {
    const rows = await queryRows(
      connection,
      sql`select stored from stored_coupons where rowid >= ${begin} and rowid < ${begin + couponsAtOnce}`,
    );
    if (rows.length === 0) return;
    yield rows.map(([stored]) => [stored as string, writeCoupons(stored as string)]);
  }
}
