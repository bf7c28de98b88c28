import { type DuckDBConnection, DuckDBDataChunk, INTEGER } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { runStatement, streamChunks } from '../../src/duckdb/connection.ts';
import { labelKey } from '../../src/purchase-store/layout.ts';
import { creationQuarter } from '../../src/purchase-store/quarter-hours.ts';

/** Customers, payment statuses and quarters of an hour of purchases, in the order of creation. */
type Keys = readonly [
  customers: readonly number[],
  statuses: readonly number[],
  quarters: readonly number[],
];

/** The quarters of an hour of previous purchases; see `previousQuarters` of the purchase store. */
type PreviousQuarters = { readonly ofAny: number[]; readonly ofStatus: number[] };

/**
 * Knows the last purchases of all customers of a base while purchases are added to it. In DuckDB, this would be
 * a window function, and two threads in that of DuckDB 1.5 made DuckDB invalidate its instance.
 */
export type PreviousPurchases = {
  /** Adds purchases that are later than all before. */
  add(keys: Keys): PreviousQuarters;
};

export function createPreviousPurchases(): PreviousPurchases {
  const last = new LastQuarters();
  const lastOfStatus = new Map<number, LastQuarters>();
  let none: number | null = null;
  return {
    add([customers, statuses, quarters]) {
      const ofAny: number[] = [];
      const ofStatus: number[] = [];
      for (let row = 0; row < customers.length; row += 1) {
        const customer = customers[row] as number;
        const quarter = quarters[row] as number;
        const status = statuses[row] as number;
        none ??= quarter - 1;
        let lasts = lastOfStatus.get(status);
        if (lasts === undefined) {
          lasts = new LastQuarters();
          lastOfStatus.set(status, lasts);
        }
        ofAny.push(last.replace(customer, quarter) ?? none);
        ofStatus.push(lasts.replace(customer, quarter) ?? none);
      }
      return { ofAny, ofStatus };
    },
  };
}

/** The last quarter of an hour by customer. */
class LastQuarters {
  /** Plus one; 0 without a purchase. */
  #quarters = new Int32Array(1024);

  replace(customer: number, quarter: number): number | undefined {
    if (customer >= this.#quarters.length) {
      const longer = new Int32Array(2 * customer);
      longer.set(this.#quarters);
      this.#quarters = longer;
    }
    const before = this.#quarters[customer] as number;
    this.#quarters[customer] = quarter + 1;
    return before === 0 ? undefined : before - 1;
  }
}

const keyColumns = raw(`customer_key, ${labelKey('payment_status')}, ${creationQuarter.name}`);

/** Continues after the purchases that a base has. */
export async function continueAfter(
  connection: DuckDBConnection,
  catalog: string,
): Promise<PreviousPurchases> {
  const previous = createPreviousPurchases();
  const keys = sql`select ${keyColumns} from ${raw(catalog)}.purchase`;
  for await (const chunk of streamChunks(connection, keys)) previous.add(columnsOf(chunk));
  return previous;
}

/**
 * Inserts encoded purchases into a base, in the order of creation. `rows` selects them with the
 * columns of a delta; none may be earlier than those of the base.
 */
export async function insertPurchases(
  connection: DuckDBConnection,
  catalog: string,
  previous: PreviousPurchases,
  rows: Sql,
): Promise<void> {
  const ordered = sql`from (${rows}) order by created_at, id`;
  const added: PreviousQuarters[] = [];
  const keys = sql`select ${keyColumns} ${ordered}`;
  for await (const chunk of streamChunks(connection, keys))
    added.push(previous.add(columnsOf(chunk)));
  await connection.run(
    'create or replace temp table previous_purchase (of_any integer, of_status integer)',
  );
  const appender = await connection.createAppender('previous_purchase', 'main', 'temp');
  try {
    for (const { ofAny, ofStatus } of added) {
      const chunk = DuckDBDataChunk.create([INTEGER, INTEGER], ofAny.length);
      chunk.setColumns([ofAny, ofStatus]);
      appender.appendDataChunk(chunk);
    }
  } finally {
    appender.closeSync();
  }
  await runStatement(
    connection,
    sql`
      insert into ${raw(catalog)}.purchase
      select * from (${ordered}) positional join previous_purchase`,
  );
  await connection.run('drop table previous_purchase');
}

const columnsOf = (chunk: DuckDBDataChunk): Keys => chunk.getColumns() as unknown as Keys;
