import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../connection/pool.ts';
import { mappedViews, numberTables, storedTables } from './mapping-definition.ts';
import { dropTriggers } from './triggers.ts';

export type RemovedMapping = {
  readonly triggers: number;
  /** The number tables that existed. */
  readonly tables: readonly string[];
  /** Mapped rows, which are deleted with `withRows`. */
  readonly customers: number;
  readonly purchases: number;
};

/** Removes triggers, functions, number tables and the state; and the mapped rows if `withRows`. */
export const removeMapping = (database: Database, withRows: boolean): Promise<RemovedMapping> =>
  withConnection(database, (connection) =>
    inTransaction(connection, async () => {
      await connection.query(`set local lock_timeout = '30s'`);
      await connection.query('lock table mapping_held_deletions in share update exclusive mode');
      const triggers = await dropTriggers(connection);
      const tables: string[] = [];
      const rows = { mapped_customers: 0, mapped_purchases: 0 };
      // Purchases first, because those of deleted customers are deleted with them.
      for (const view of mappedViews.toReversed()) {
        const numbers = numberTables[view];
        if (!(await exists(connection, numbers))) continue;
        tables.push(numbers);
        const mapped = `from ${storedTables[view]} as stored`;
        rows[view] = withRows
          ? ((
              await connection.query(
                `delete ${mapped} using ${numbers} as numbers where stored.id = numbers.id`,
              )
            ).rowCount ?? 0)
          : await countRows(connection, `${mapped} join ${numbers} using (id)`);
      }
      if (withRows) {
        await connection.query(
          'delete from customers using mapped_organizations where customers.id = guest_customer_id',
        );
      }
      await connection.query(
        `drop table if exists customer_numbers, purchase_numbers;
         delete from mapping_changes;
         delete from mapping_failures;
         delete from mapping_held_deletions;
         delete from mapped_organizations;
         delete from mapping_state`,
      );
      return {
        triggers,
        tables,
        customers: rows.mapped_customers,
        purchases: rows.mapped_purchases,
      };
    }),
  );

async function exists(connection: Connection, table: string): Promise<boolean> {
  const { rows } = await connection.query<{ exists: boolean }>(
    'select to_regclass($1) is not null as exists',
    [table],
  );
  return rows[0]?.exists === true;
}

async function countRows(connection: Connection, from: string): Promise<number> {
  const { rows } = await connection.query<{ count: bigint }>(`select count(*) ${from}`);
  return Number(rows[0]?.count ?? 0);
}
