import {
  type Connection,
  type Database,
  withConnection,
} from '../../src/postgres/connection/pool.ts';
import { registerRow } from './logged-lines.ts';

/** Adds a row to a table and returns its id. Objects are stored as JSON. */
export async function addRow(
  connection: Database | Connection,
  table: string,
  values: Record<string, unknown>,
): Promise<bigint> {
  registerRow(values);
  const columns = Object.keys(values);
  const { rows } = await connection.query<{ id: bigint }>(
    `insert into ${table} (${columns.join(', ')})
     values (${columns.map((_, index) => `$${index + 1}`).join(', ')})
     returning id`,
    columns.map((column) => stored(values[column])),
  );
  return (rows[0] as { id: bigint }).id;
}

/** Adds customers to a segment or tag. */
export async function addMembers(
  connection: Database | Connection,
  relation: 'segment' | 'tag',
  organizationId: bigint,
  ofId: bigint,
  customerIds: readonly bigint[],
): Promise<void> {
  const table = relation === 'segment' ? 'segment_customers' : 'customer_tags';
  await connection.query(
    `insert into ${table} (organization_id, ${relation}_id, customer_id)
     select $1, $2, unnest($3::bigint[])`,
    [organizationId, ofId, customerIds],
  );
}

/** Writes in a transaction without foreign keys, as logical replication does. */
export async function withoutForeignKeys<Result>(
  database: Database,
  write: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  return withConnection(database, async (connection) => {
    await connection.query('begin; set local session_replication_role = replica');
    const result = await write(connection);
    await connection.query('commit');
    return result;
  });
}

function stored(value: unknown): unknown {
  const isJson = typeof value === 'object' && value !== null && !(value instanceof Date);
  return isJson ? JSON.stringify(value) : value;
}
