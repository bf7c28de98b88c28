import pg from 'pg';
import { captureSql } from '../../../src/postgres/capture/capture.ts';
import {
  type Connection,
  createPool,
  withConnection,
} from '../../../src/postgres/connection/pool.ts';
import { migrate } from '../../../src/postgres/schema/migrate.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { administer, databaseUrl } from '../postgres.ts';
import type { PostgresServer } from '../postgres-server.ts';
import { addShops, createHistoryTriggers, recordHistory } from './history.ts';
import { statements } from './statements.ts';
import { endPrepared, isConnectionLoss, type Log } from './writers.ts';

/** Faults that change Postgres, its tables or triggers without an entry in the change log. */
export type SourceFaults = {
  readonly all: readonly ((random: RandomSource) => Promise<void>)[];
  /** Whether Postgres was restored or replaced since `recovered`: files may show lost rows. */
  hasLostHistory(): boolean;
  recovered(): void;
};

export function createSourceFaults(postgres: PostgresServer, log: Log): SourceFaults {
  const { pool, url } = postgres;
  let restoreColdCopy: (() => Promise<void>) | null = null;
  let hasDump = false;
  let hasLostHistory = false;

  const inTransaction = async (work: (connection: Connection) => Promise<void>): Promise<void> => {
    try {
      await withConnection(pool, async (connection) => {
        await connection.query(`begin; set local lock_timeout = '5s'`);
        try {
          await work(connection);
          await connection.query('commit');
        } catch (error) {
          await connection.query('rollback').catch(() => {});
          throw error;
        }
      });
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  };

  const bypassTriggers = async (random: RandomSource) => {
    const [trigger, state] = random.pick(triggers);
    log(`writing with ${trigger} disabled`);
    await inTransaction(async (connection) => {
      await connection.query(`alter table purchases disable trigger ${trigger}`);
      const { rows } = await connection.query('select id from organizations order by id');
      if (rows.length > 0) {
        await random.pick(statements)(connection, random.pick(rows).id, random);
      }
      await connection.query(`alter table purchases enable ${state} trigger ${trigger}`);
    });
  };

  const breakCapture = async (random: RandomSource) => {
    const [trigger] = random.pick(triggers);
    const [statement, done] = random.chance(0.5)
      ? [`drop trigger ${trigger} on purchases`, 'dropped']
      : [`alter table purchases disable trigger ${trigger}`, 'disabled'];
    const milliseconds = random.between(100, 2_000);
    log(`${trigger} was ${done}`);
    await inTransaction(async (connection) => void (await connection.query(statement)));
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    // migrate waits for the locks of prepared transactions.
    let isRestored = false;
    const restoring = retryWhileDisconnected(() => migrate(url)).finally(() => {
      isRestored = true;
    });
    restoring.catch(() => {});
    while (!isRestored) {
      await endPrepared(pool, random, 1).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    await restoring;
    log('the triggers were restored');
  };

  const restoreDump = async () => {
    if (!hasDump) {
      log('dumping purchases');
      await inTransaction(async (connection) => void (await connection.query(dump)));
      hasDump = true;
      return;
    }
    log('restoring purchases from a dump');
    await inTransaction(async (connection) => {
      await connection.query(restore);
      await connection.query(captureSql);
      await createHistoryTriggers(connection);
    });
  };

  const useColdCopy = async () => {
    if (restoreColdCopy === null) {
      log('stopping Postgres and copying its files');
      restoreColdCopy = await postgres.coldCopy();
      return;
    }
    log('restoring a cold copy of Postgres');
    hasLostHistory = true;
    hasDump = false;
    await restoreColdCopy();
    restoreColdCopy = null;
  };

  const recreateDatabase = async (random: RandomSource) => {
    log('dropping and creating the database');
    hasLostHistory = true;
    hasDump = false;
    const { rows } = await pool.query<{ gid: string }>('select gid from pg_prepared_xacts');
    for (const { gid } of rows) await pool.query(`rollback prepared '${gid}'`);
    const database = new URL(url).pathname.slice(1);
    const onServer = (statement: string) => administer(databaseUrl(url, 'postgres'), statement);
    // Another transaction may have been prepared meanwhile.
    const isDropped = await onServer(`drop database ${database} with (force)`).then(
      () => true,
      () => false,
    );
    if (!isDropped) return;
    // Under another name, so that no client writes before the history is recorded.
    const draft = `${database}_draft`;
    await retryWhileDisconnected(async () => {
      await onServer(`drop database if exists ${draft} with (force)`);
      await onServer(`create database ${draft}`);
      await migrate(databaseUrl(url, draft));
      const draftPool = createPool(databaseUrl(url, draft), { max: 1, applicationName: 'chaos' });
      await recordHistory(draftPool).finally(() => draftPool.end());
    });
    await onServer(`alter database ${draft} rename to ${database}`);
    await retryWhileDisconnected(() => addShops(pool, random));
  };

  return {
    all: [
      ...[bypassTriggers, bypassTriggers, breakCapture, restoreDump, restoreDump],
      ...[useColdCopy, useColdCopy, recreateDatabase],
    ],
    hasLostHistory: () => hasLostHistory,
    recovered() {
      hasLostHistory = false;
    },
  };
}

/** The triggers that capture changes, and how they are enabled. */
const triggers = [
  ['log_inserted_purchases', ''],
  ['log_updated_purchases', ''],
  ['log_deleted_purchases', ''],
  ['log_replicated_purchases', 'replica'],
] as const;

const dump = `
  drop table if exists dumped_purchases;
  create table dumped_purchases (like purchases including all);
  insert into dumped_purchases select * from purchases`;

/** Drops, creates and fills the table as pg_restore does. Rows without a customer are left out. */
const restore = `
  lock table purchases in access exclusive mode;
  drop table purchases;
  create table purchases (like dumped_purchases including all);
  insert into purchases select dumped_purchases.* from dumped_purchases
    join organizations on organizations.id = dumped_purchases.organization_id
    join customers on customers.id = dumped_purchases.customer_id;
  alter table purchases
    add foreign key (organization_id) references organizations on delete cascade,
    add foreign key (customer_id) references customers on delete cascade;
  select setval(pg_get_serial_sequence('purchases', 'id'),
    greatest((select max(id) from purchases where id < 2 ^ 40), 1));
  insert into history default values;
  insert into history (organization_id, purchase_id, content)
    select organization_id, id, row(purchases.*)::purchase_content from purchases`;

/** Lock conflicts, and rows that were deleted meanwhile. */
function isConflict(error: unknown): boolean {
  return (
    error instanceof pg.DatabaseError && /^(40P01|55P03|23\w{3}|42P01)$/.test(error.code ?? '')
  );
}

/** Another fault may stop Postgres meanwhile. */
async function retryWhileDisconnected(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isConnectionLoss(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
