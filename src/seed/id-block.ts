import type pg from 'pg';

/** Any constant: seeders take the same one, so that they wait for each other. */
const SEED_LOCK = 7_332_683;

/**
 * Call it first in a transaction. Between nextval and setval another seeder
 * could take the same ids. Other writers do not take the lock: should one insert
 * in those microseconds, the primary key refuses the COPY and the organization
 * is rolled back whole.
 */
export async function lockIdBlocks(client: pg.Client): Promise<void> {
  await client.query('select pg_advisory_xact_lock($1)', [SEED_LOCK]);
}

/** Takes `count` consecutive ids of the table's identity sequence; returns the first. */
export async function reserveIdBlock(
  client: pg.Client,
  table: string,
  count: number,
): Promise<number> {
  if (count === 0) return 0;
  const { rows } = await client.query<{ last_id: string }>(
    `select setval(sequence, nextval(sequence) + $2::bigint - 1) as last_id
       from (select pg_get_serial_sequence($1, 'id')::regclass as sequence) as identity`,
    [table, count],
  );
  const lastId = Number(rows[0]?.last_id);
  // Rows count ids with doubles.
  if (!Number.isSafeInteger(lastId)) throw new RangeError(`${table} has run out of seedable ids`);
  return lastId - count + 1;
}
