import pg from 'pg';
import { captureSql } from '../../../src/postgres/capture.ts';
import { migrate } from '../../../src/postgres/migrate.ts';
import { type Connection, createPool, withConnection } from '../../../src/postgres/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { administer, databaseUrl } from '../postgres.ts';
import { attachHistory, furnish, keepHistory } from './history.ts';
import type { PostgresOfItsOwn } from './postgres-of-its-own.ts';
import { statements } from './statements.ts';
import { endPrepared, isConnectionLoss, type Tell } from './writers.ts';

/** What happens to Postgres, its tables and triggers without an entry in the change log. */
export type SourceFaults = {
  readonly all: readonly ((random: RandomSource) => Promise<void>)[];
  /** Whether Postgres was set back or replaced since `settled`: files may show what it lost. */
  hasLostHistory(): boolean;
  settled(): void;
};

export function createSourceFaults(postgres: PostgresOfItsOwn, tell: Tell): SourceFaults {
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
      if (!isInTheWay(error)) throw error;
    }
  };

  const bypassTriggers = async (random: RandomSource) => {
    const [trigger, state] = random.pick(triggers);
    tell(`writing with ${trigger} disabled`);
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
    tell(`${trigger} is ${done}`);
    await inTransaction(async (connection) => void (await connection.query(statement)));
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    // A prepared transaction keeps its lock on purchases, for which migrate waits.
    let isRestored = false;
    const restoring = untilDone(() => migrate(url)).finally(() => {
      isRestored = true;
    });
    restoring.catch(() => {});
    while (!isRestored) {
      await endPrepared(pool, random, 1).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    await restoring;
    tell('the triggers are restored');
  };

  const restoreDump = async () => {
    if (!hasDump) {
      tell('dumping purchases');
      await inTransaction(async (connection) => void (await connection.query(dump)));
      hasDump = true;
      return;
    }
    tell('restoring purchases from a dump');
    await inTransaction(async (connection) => {
      await connection.query(restore);
      await connection.query(captureSql);
      await attachHistory(connection);
    });
  };

  const useColdCopy = async () => {
    if (restoreColdCopy === null) {
      tell('stopping Postgres and copying its files');
      restoreColdCopy = await postgres.coldCopy();
      return;
    }
    tell('restoring a cold copy of Postgres');
    hasLostHistory = true;
    hasDump = false;
    await restoreColdCopy();
    restoreColdCopy = null;
  };

  const recreateDatabase = async (random: RandomSource) => {
    tell('dropping the database and creating it anew');
    hasLostHistory = true;
    hasDump = false;
    const { rows } = await pool.query<{ gid: string }>('select gid from pg_prepared_xacts');
    for (const { gid } of rows) await pool.query(`rollback prepared '${gid}'`);
    const database = new URL(url).pathname.slice(1);
    const onServer = (statement: string) => administer(databaseUrl(url, 'postgres'), statement);
    // A transaction may have been prepared in between.
    const isDropped = await onServer(`drop database ${database} with (force)`).then(
      () => true,
      () => false,
    );
    if (!isDropped) return;
    // Under another name, so that nobody writes to it before it keeps their history.
    const draft = `${database}_draft`;
    await untilDone(async () => {
      await onServer(`drop database if exists ${draft} with (force)`);
      await onServer(`create database ${draft}`);
      await migrate(databaseUrl(url, draft));
      const draftPool = createPool(databaseUrl(url, draft), { max: 1, applicationName: 'chaos' });
      await keepHistory(draftPool).finally(() => draftPool.end());
    });
    await onServer(`alter database ${draft} rename to ${database}`);
    await untilDone(() => furnish(pool, random));
  };

  return {
    all: [
      ...[bypassTriggers, bypassTriggers, breakCapture, restoreDump, restoreDump],
      ...[useColdCopy, useColdCopy, recreateDatabase],
    ],
    hasLostHistory: () => hasLostHistory,
    settled() {
      hasLostHistory = false;
    },
  };
}

/** And how each of them is enabled. */
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

/** As pg_restore does it: the table is dropped, created and filled. What it refers to must be there. */
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

/** Locks that others hold, and rows that went meanwhile. */
function isInTheWay(error: unknown): boolean {
  return (
    error instanceof pg.DatabaseError && /^(40P01|55P03|23\w{3}|42P01)$/.test(error.code ?? '')
  );
}

/** Postgres may be restarted meanwhile. */
async function untilDone(work: () => Promise<unknown>): Promise<void> {
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
