import { type DuckDBConnection, type DuckDBDataChunk, INTEGER } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { appendChunks } from '../../../src/duckdb/append.ts';
import { runStatement, streamChunks } from '../../../src/duckdb/connection.ts';
import {
  createPreviousPurchases,
  keyColumns,
  type PreviousPurchases,
  type PreviousQuarters,
  type PurchaseKeys,
} from '../../../src/purchase-store/format/last-purchases.ts';

/** Reads the last purchases of a base, so that a load can continue. */
export async function continueAfter(
  connection: DuckDBConnection,
  catalog: string,
): Promise<PreviousPurchases> {
  const previous = createPreviousPurchases();
  const columns = await keyColumns(connection, catalog);
  const keys = sql`select ${columns} from ${raw(catalog)}.purchase`;
  for await (const chunk of streamChunks(connection, keys)) previous.add(columnsOf(chunk));
  return previous;
}

/**
 * Inserts encoded purchases into a base. `rows` selects them with the columns of a delta, and `keys` is the FROM
 * clause of at least their keys, both in the order of creation. None may be earlier than those of the base, whose
 * dictionaries have their labels.
 */
export async function insertPurchases(
  connection: DuckDBConnection,
  catalog: string,
  previous: PreviousPurchases,
  { keys, rows }: { readonly keys: Sql; readonly rows: Sql },
): Promise<void> {
  const added: PreviousQuarters[] = [];
  const columns = await keyColumns(connection, catalog);
  for await (const chunk of streamChunks(connection, sql`select ${columns} ${keys}`))
    added.push(previous.add(columnsOf(chunk)));
  await connection.run(
    'create or replace temp table previous_purchase (of_any integer, of_status integer)',
  );
  await appendChunks(
    connection,
    { catalog: 'temp', table: 'previous_purchase' },
    [INTEGER, INTEGER],
    added.map(({ ofAny, ofStatus }) => [ofAny, ofStatus]),
  );
  await runStatement(
    connection,
    sql`
      insert into ${raw(catalog)}.purchase
      select * from (${rows}) positional join previous_purchase`,
  );
  await connection.run('drop table previous_purchase');
}

const columnsOf = (chunk: DuckDBDataChunk): PurchaseKeys =>
  chunk.getColumns() as unknown as PurchaseKeys;
