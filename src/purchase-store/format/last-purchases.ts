import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { paymentStatuses } from '../../domain/purchase.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelKey, labelTable, noLabel } from './layout.ts';
import { creationQuarter } from './quarter-hours.ts';

const status = labelKey('payment_status');

/**
 * The payment status of previous purchases as SQL: the key of one of `paymentStatuses`, and `noLabel` for all
 * others. The column is free text, so memory for each status would have no bound. `entries` is the table of
 * SQL with the entries of the dictionary, which must have all statuses of the purchases.
 */
async function previousStatus(connection: DuckDBConnection, entries: Sql): Promise<Sql> {
  const found = await queryRows(
    connection,
    sql`select key from ${entries} where value in (${join(paymentStatuses)})`,
  );
  // Not IN: DuckDB makes a join of it, and two threads then stream the rows of a base in another order.
  const known = found.map(([key]) => `when ${key} then ${key}`);
  return raw(
    known.length === 0 ? `${noLabel}` : `case ${status} ${known.join(' ')} else ${noLabel} end`,
  );
}

/** Selects the columns of `PurchaseKeys` for purchases with the dictionaries of a base. */
export async function keyColumns(connection: DuckDBConnection, base: string): Promise<Sql> {
  const entries = raw(`${base}.${labelTable('payment_status')}`);
  const ofStatus = await previousStatus(connection, entries);
  return sql`customer_key, ${ofStatus}, ${raw(creationQuarter.name)}`;
}

/** Customers, statuses (`previousStatus`) and quarters of an hour of purchases, in the order of creation. */
export type PurchaseKeys = readonly [
  customers: readonly number[],
  statuses: readonly number[],
  quarters: readonly number[],
];

/** The quarters of an hour of previous purchases (previous-purchases.ts). */
export type PreviousQuarters = { readonly ofAny: number[]; readonly ofStatus: number[] };

/**
 * Tracks the last purchase of each customer of a base while purchases are added. SQL would need a window
 * function, and two threads in DuckDB 1.5's window operator made DuckDB invalidate its instance.
 */
export type PreviousPurchases = {
  /** Adds purchases that are later than all before. */
  add(keys: PurchaseKeys): PreviousQuarters;
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
  /** By customer: the quarter plus one, or 0 without a purchase. */
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
