import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import sql from 'sql-template-tag';
import {
  type Connection,
  type Database,
  withConnection,
} from '../../../src/postgres/connection/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { firstStatements, statements, statementsOnPurchases } from './statements.ts';

export type Log = (event: string) => void;

const maxOrganizations = 5;

/**
 * Writes random transactions until the signal is aborted, and returns the number of commits. Each
 * transaction has its own random source, so its values do not depend on other transactions.
 */
export async function writeAtRandom(
  database: Database,
  randomFor: (transaction: number) => RandomSource,
  log: Log,
  signal: AbortSignal,
): Promise<number> {
  let committed = 0;
  for (let number = 0; !signal.aborted; number += 1) {
    const random = randomFor(number);
    const pause = random.chance(0.05) ? random.between(0, 2_000) : random.between(0, 60);
    try {
      await withConnection(database, async (connection) => {
        await connection.query(`set lock_timeout = '2s'`);
        const choice = random.fraction();
        if (choice < 0.012) await truncate(connection, random, log);
        else if (choice < 0.03) await changeOrganizations(connection, random, log);
        else await runTransaction(connection, random, log);
      });
      committed += 1;
    } catch (error) {
      if (!isExpectedError(error)) throw error;
    }
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
  return committed;
}

/** Deadlocks, lock timeouts, rows that were deleted meanwhile, lost connections. */
function isExpectedError(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return isConnectionLoss(error);
  return (
    isDatabaseReplaced(error) ||
    /^(40P01|40001|55P03|23503|23505|57P0\d|08\w{3}|25P02)$/.test(error.code ?? '')
  );
}

/** The database is being created again, or a table restored. */
export function isDatabaseReplaced(error: unknown): boolean {
  return error instanceof pg.DatabaseError && /^(42P01|42883|3D000|XX000)$/.test(error.code ?? '');
}

export function isConnectionLoss(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(57P0\d|08\w{3})$/.test(error.code ?? '');
  return /ECONNRESET|ECONNREFUSED|EPIPE|terminat|timeout|not queryable|Client has|closed/i.test(
    String(error),
  );
}

/** Runs `work`, which ends the transaction. After an error, the transaction is rolled back. */
async function inTransaction(connection: Connection, work: () => Promise<void>): Promise<void> {
  await connection.query('begin');
  try {
    await work();
  } catch (error) {
    await connection.query('rollback').catch(() => {});
    throw error;
  }
}

async function runTransaction(
  connection: Connection,
  random: RandomSource,
  log: Log,
): Promise<void> {
  const { rows } = await connection.query<{ id: bigint }>(
    'select id from organizations order by id',
  );
  const isLong = random.chance(0.07);
  const isReplica = random.chance(0.1);
  await inTransaction(connection, async () => {
    // Logical replication and some restore tools write so. No foreign key is checked.
    if (isReplica) await connection.query('set local session_replication_role = replica');
    for (let left = 1 + random.integer(3); left > 0 && rows.length > 0; left -= 1) {
      const statement = random.pick(isReplica ? statementsOnPurchases : statements);
      const organization = random.pick(rows).id;
      const isUndone = random.chance(0.1);
      const hasSavepoint = isUndone || random.chance(0.15);
      if (hasSavepoint) await connection.query('savepoint here');
      await statement(connection, organization, random);
      if (isUndone) await connection.query('rollback to savepoint here');
      else if (hasSavepoint) await connection.query('release savepoint here');
      if (isLong) await sleep(random.between(0, 2_000));
    }
    await end(connection, random, log);
  });
}

async function end(connection: Connection, random: RandomSource, log: Log): Promise<void> {
  const ending = random.fraction();
  if (ending < 0.15) {
    await connection.query('rollback');
  } else if (ending < 0.2) {
    const name = `chaos_${random.integer(2 ** 31)}`;
    // Beyond max_prepared_transactions, the transaction is rolled back.
    await connection.query(`prepare transaction '${name}'`).catch((error) => {
      if (error.code !== '53200' && error.code !== '53400' && error.code !== '42710') throw error;
    });
    log(`prepared ${name}`);
  } else {
    await connection.query('commit');
  }
}

/** Commits or rolls back prepared transactions, each with a probability. */
export async function endPrepared(
  database: Database,
  random: RandomSource,
  probability: number,
): Promise<void> {
  const { rows } = await database.query<{ gid: string }>(
    'select gid from pg_prepared_xacts where database = current_database() order by gid',
  );
  for (const { gid } of rows) {
    const verb = random.chance(0.7) ? 'commit' : 'rollback';
    if (!random.chance(probability)) continue;
    await database.query(`${verb} prepared '${gid}'`);
  }
}

async function truncate(connection: Connection, random: RandomSource, log: Log): Promise<void> {
  await inTransaction(connection, async () => {
    await connection.query('truncate purchases');
    const { rows } = await connection.query<{ id: bigint }>(
      'select id from organizations order by id',
    );
    for (const { id } of rows) {
      for (const statement of firstStatements) {
        if (random.chance(0.6)) await statement(connection, id, random);
      }
    }
    const isKept = random.chance(0.7);
    await connection.query(isKept ? 'commit' : 'rollback');
    log(isKept ? 'truncated' : 'truncated, and rolled back');
  });
}

/** Adds an organization with purchases, or deletes an organization. */
async function changeOrganizations(
  connection: Connection,
  random: RandomSource,
  log: Log,
): Promise<void> {
  const { rows } = await connection.query<{ id: bigint }>(
    'select id from organizations order by id',
  );
  if (rows.length <= 2 || (rows.length < maxOrganizations && random.chance(0.5))) {
    await addShop(connection, random);
    log('added an organization');
    return;
  }
  const { id } = random.pick(rows);
  await connection.query(sql`delete from organizations where id = ${id}`);
  log(`deleted organization ${id}`);
}

/** Adds an organization with customers and purchases in one transaction. */
export async function addShop(connection: Connection, random: RandomSource): Promise<void> {
  await inTransaction(connection, async () => {
    const { rows } = await connection.query<{ id: bigint }>(
      `insert into organizations (name) values ('Shop') returning id`,
    );
    for (const statement of firstStatements) {
      await statement(connection, (rows[0] as { id: bigint }).id, random);
    }
    await connection.query('commit');
  });
}
