import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { appendColumns } from '../../duckdb/append.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { listed } from '../../duckdb/listed.ts';
import type { Shortcuts } from '../../duckdb/shortcuts.ts';
import { previousStatus } from '../format/last-purchases.ts';
import { labelDictionary } from '../format/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../format/relations.ts';
import {
  columnDefinitions,
  columnTypes,
  differencesOf,
  movedPurchases,
} from './previous-differences.ts';

/**
 * The table `previous_change` of a delta. Its signed rows are the difference between the previous purchases
 * that the base stores (previous-purchases.ts) and those of the current purchases:
 *
 * - sign -1: a purchase of the base that was changed or deleted, or that has another previous one now;
 * - sign 1: a changed or added purchase, or one that has another previous one now.
 *
 * Its payment statuses are those of `previousStatus`.
 */
export type PreviousChanges = {
  /** Notes changed purchases for the next `update`. */
  add(ids: readonly bigint[]): void;
  /** Creates or updates the table. After a failure, the delta must be created again. */
  update(connection: DuckDBConnection): Promise<void>;
};

/**
 * `firstQuarter` is the quarter of an hour of the base's earliest purchase. `isMade`: a saved delta has
 * the table.
 */
export function createPreviousChanges(
  catalogs: StoreCatalogs,
  firstQuarter: number,
  isMade: boolean,
  shortcuts: Shortcuts,
): PreviousChanges {
  const table = `${catalogs.delta}.previous_change`;
  /** Purchases that changed since the last `update`; null if the table must be created. */
  let changed: Set<bigint> | null = isMade ? new Set() : null;

  /** Reads the customers of the purchases `ids`, or of all changes if `ids` is null. */
  const customersOf = async (
    connection: DuckDBConnection,
    statusKey: Sql,
    ids: ReadonlySet<bigint> | null,
  ): Promise<number[]> => {
    const isChanged =
      ids === null ? sql`true` : sql`id in (${listed([...ids], 'bigint', shortcuts)})`;
    const moved = movedPurchases(catalogs.delta, statusKey, isChanged);
    const customers = sql`select customer_key from (${moved})`;
    // Only this table still has a purchase that was added, and then deleted or moved.
    const before = sql`select customer_key from ${raw(table)} where ${isChanged}`;
    const all =
      ids === null ? sql`select distinct * from (${customers})` : sql`${customers} union ${before}`;
    return (await queryRows(connection, all)).map(([key]) => key as number);
  };

  return {
    add(ids) {
      for (const id of ids) changed?.add(id);
      if (changed !== null && changed.size > shortcuts.maxPreviousUpdates) changed = null;
    },

    async update(connection) {
      if (changed?.size === 0) return;
      const statuses = dictionaryEntries(catalogs, labelDictionary('payment_status'));
      const statusKey = await previousStatus(connection, statuses);
      const customers = await customersOf(connection, statusKey, changed);
      if (changed === null) {
        await connection.run(`create or replace table ${table} (${columnDefinitions})`);
      } else if (customers.length > 0) {
        await connection.run(
          `delete from ${table} where customer_key in (${customers.join(', ')})`,
        );
      }
      if (customers.length > 0) {
        const none = firstQuarter - 1;
        const rows = await differencesOf(connection, catalogs, statusKey, { customers, none });
        const target = { catalog: catalogs.delta, table: 'previous_change' };
        await appendColumns(connection, target, columnTypes, rows);
      }
      changed = new Set();
    },
  };
}
