import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import sql from 'sql-template-tag';
import { type Connection, type Database, withConnection } from '../../../src/postgres/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { firstStatements, statements, statementsOnPurchases } from './statements.ts';

export type Tell = (event: string) => void;

const mostOrganizations = 5;

/**
 * Writes one random transaction after the other. Each has a random source of its
 * own: what one draws does not depend on how another one went.
 */
export async function writeAtRandom(
  database: Database,
  randomFor: (transaction: number) => RandomSource,
  tell: Tell,
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
        if (choice < 0.012) await truncate(connection, random, tell);
        else if (choice < 0.03) await changeOrganizations(connection, random, tell);
        else await runTransaction(connection, random, tell);
      });
      committed += 1;
    } catch (error) {
      if (!isToBeExpected(error)) throw error;
    }
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
  return committed;
}

/** Two writers in each other's way, rows that went meanwhile, or a lost connection. */
function isToBeExpected(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return isConnectionLoss(error);
  return (
    isSourceGone(error) ||
    /^(40P01|40001|55P03|23503|23505|57P0\d|08\w{3}|25P02)$/.test(error.code ?? '')
  );
}

/** The database is being created anew, or a table restored. */
export function isSourceGone(error: unknown): boolean {
  return error instanceof pg.DatabaseError && /^(42P01|42883|3D000|XX000)$/.test(error.code ?? '');
}

export function isConnectionLoss(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(57P0\d|08\w{3})$/.test(error.code ?? '');
  return /ECONNRESET|ECONNREFUSED|EPIPE|terminat|timeout|not queryable|Client has|closed/i.test(
    String(error),
  );
}

async function runTransaction(
  connection: Connection,
  random: RandomSource,
  tell: Tell,
): Promise<void> {
  const { rows } = await connection.query<{ id: bigint }>(
    'select id from organizations order by id',
  );
  const isLong = random.chance(0.07);
  const isReplica = random.chance(0.1);
  await connection.query('begin');
  try {
    // As logical replication and some restore tools write: no foreign key is checked.
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
    await end(connection, random, tell);
  } catch (error) {
    await connection.query('rollback').catch(() => {});
    throw error;
  }
}

async function end(connection: Connection, random: RandomSource, tell: Tell): Promise<void> {
  const ending = random.fraction();
  if (ending < 0.15) {
    await connection.query('rollback');
  } else if (ending < 0.2) {
    const name = `chaos_${random.integer(2 ** 31)}`;
    // More than the server keeps is refused, which rolls back.
    await connection.query(`prepare transaction '${name}'`).catch((error) => {
      if (error.code !== '53200' && error.code !== '53400' && error.code !== '42710') throw error;
    });
    tell(`prepared ${name}`);
  } else {
    await connection.query('commit');
  }
}

/** Ends transactions that were prepared, each after the toss of a coin. */
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

async function truncate(connection: Connection, random: RandomSource, tell: Tell): Promise<void> {
  await connection.query('begin');
  try {
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
    tell(isKept ? 'truncated' : 'truncated, and rolled back');
  } catch (error) {
    await connection.query('rollback').catch(() => {});
    throw error;
  }
}

/** Adds an organization with purchases, or removes one with everything. */
async function changeOrganizations(
  connection: Connection,
  random: RandomSource,
  tell: Tell,
): Promise<void> {
  const { rows } = await connection.query<{ id: bigint }>(
    'select id from organizations order by id',
  );
  if (rows.length <= 2 || (rows.length < mostOrganizations && random.chance(0.5))) {
    await addShop(connection, random);
    tell('added an organization');
    return;
  }
  const { id } = random.pick(rows);
  await connection.query(sql`delete from organizations where id = ${id}`);
  tell(`deleted organization ${id}`);
}

/** An organization with customers and purchases, all in one transaction. */
export async function addShop(connection: Connection, random: RandomSource): Promise<void> {
  await connection.query('begin');
  try {
    const { rows } = await connection.query<{ id: bigint }>(
      `insert into organizations (name) values ('Shop') returning id`,
    );
    for (const statement of firstStatements) {
      await statement(connection, (rows[0] as { id: bigint }).id, random);
    }
    await connection.query('commit');
  } catch (error) {
    await connection.query('rollback').catch(() => {});
    throw error;
  }
}
