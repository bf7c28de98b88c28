import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../connection/pool.ts';
import { repeatAfterConflicts } from './contention.ts';
import { type MappedView, mappedViews, numberTables, storedTables } from './mapping-definition.ts';
import { dropTriggers, triggerLock } from './triggers.ts';

type RemovedMapping = {
  readonly triggers: number;
  /** Whether there were numbers of rows, or a state. */
  readonly wasApplied: boolean;
  /** Mapped rows. With `withRows`, these are deleted. */
  readonly customers: number;
  readonly purchases: number;
};

/**
 * Removes numbers and the state, and the mapped rows if `withRows`; then triggers and functions, because no
 * table of the shop may stay locked while rows are deleted.
 */
export async function removeMapping(
  database: Database,
  withRows: boolean,
): Promise<RemovedMapping> {
  const removed = await repeatAfterConflicts(() => removeNumbers(database, withRows));
  const triggers = await withConnection(database, (connection) =>
    dropTriggers(connection, [], triggerLock),
  );
  await database.query('delete from mapping_changes');
  return { ...removed, triggers };
}

const removeNumbers = (
  database: Database,
  withRows: boolean,
): Promise<Omit<RemovedMapping, 'triggers'>> =>
  withConnection(database, (connection) =>
    inTransaction(
      connection,
      async () => {
        await connection.query(
          `set local lock_timeout = '30s';
           lock table mapping_held_deletions in share update exclusive mode`,
        );
        const wasApplied =
          (await countRows(connection, 'from mapping_state')) > 0 ||
          (await countRows(
            connection,
            `from (select from ${numberTables.mapped_customers} limit 1) as numbers`,
          )) > 0;
        const rows = { mapped_customers: 0, mapped_purchases: 0 };
        // Purchases first: a customer with purchases of another writer stays.
        for (const view of mappedViews.toReversed()) {
          rows[view] = await (withRows ? deleteRows : countMapped)(connection, view);
        }
        if (withRows) {
          await connection.query(
            `delete from customers using mapped_organizations
             where customers.id = guest_customer_id and ${withoutPurchases('customers')}`,
          );
        }
        await connection.query(
          `delete from mapped_customer_numbers;
           delete from mapped_purchase_numbers;
           delete from mapping_failures;
           delete from mapping_held_deletions;
           delete from mapped_organizations;
           delete from mapping_state`,
        );
        return {
          wasApplied,
          customers: rows.mapped_customers,
          purchases: rows.mapped_purchases,
        };
      },
      'isolation level repeatable read',
    ),
  );

/** Another writer may have written purchases of a mapped customer. A cascade would delete them. */
const withoutPurchases = (customers: string): string =>
  `not exists (select from purchases where customer_id = ${customers}.id)`;

const isMapped = `stored.id = numbers.id and stored.organization_id = numbers.organization_id and is_stored`;

async function deleteRows(connection: Connection, view: MappedView): Promise<number> {
  const { rowCount } = await connection.query(
    `delete from ${storedTables[view]} as stored using ${numberTables[view]} as numbers
     where ${isMapped} ${view === 'mapped_customers' ? `and ${withoutPurchases('stored')}` : ''}`,
  );
  return rowCount ?? 0;
}

const countMapped = (connection: Connection, view: MappedView): Promise<number> =>
  countRows(
    connection,
    `from ${storedTables[view]} as stored join ${numberTables[view]} as numbers on ${isMapped}`,
  );

async function countRows(connection: Connection, from: string): Promise<number> {
  const { rows } = await connection.query<{ count: bigint }>(`select count(*) ${from}`);
  return Number(rows[0]?.count ?? 0);
}
