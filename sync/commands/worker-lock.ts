import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import sql from 'sql-template-tag';
import type { Database } from '../../src/postgres/pool.ts';
import type { Shard } from '../shard.ts';
import { prepareSession } from './session.ts';

/**
 * The right to write to a data folder, or to a shard's part of it: an advisory
 * lock in Postgres, held by a connection of its own for as long as that lives.
 */
export type WorkerLock = {
  /** Aborted when the connection, and with it the lock, is lost. */
  readonly lost: AbortSignal;
  release(): Promise<void>;
};

const heartbeatMs = 2_000;
const answerWithinMs = 5_000;
const namePrefix = 'crm-data-service sync lock';
const commandMark = ' command';

/** A worker follows the change log; a command holds the lock for one pass. */
export type LockHolder = 'worker' | 'command';

/** Null where another process has the lock, or divides the folder into other shards. */
export async function tryWorkerLock(
  databaseUrl: string,
  folderId: string,
  shard: Shard,
  holder: LockHolder = 'worker',
): Promise<WorkerLock | null> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name:
      `${namePrefix}${holder === 'command' ? commandMark : ''} pid ${process.pid} on ${hostname()}`.slice(
        0,
        63,
      ),
    connectionTimeoutMillis: answerWithinMs,
    query_timeout: answerWithinMs,
    keepAlive: true,
  });
  const lost = new AbortController();
  const lose = () => lost.abort(new Error('the connection that holds the lock was lost'));
  client.on('error', lose);
  client.on('end', lose);
  try {
    await client.connect();
    await prepareSession(client);
    // A machine that is switched off says no goodbye: let the server notice soon.
    await client.query('set tcp_keepalives_idle = 5');
    await client.query('set tcp_keepalives_interval = 2');
    await client.query('set tcp_keepalives_count = 3');
    if (!(await lockFor(client, folderId, shard))) {
      await client.end();
      return null;
    }
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  let isAsking = false;
  const heartbeat = setInterval(() => {
    if (isAsking) return;
    isAsking = true;
    client
      .query('select')
      .catch(() => {
        lose();
        void client.end().catch(() => {});
      })
      .finally(() => {
        isAsking = false;
      });
  }, heartbeatMs);
  return {
    lost: lost.signal,
    async release() {
      clearInterval(heartbeat);
      // Given back is not lost.
      client.off('end', lose);
      await client.end().catch(() => {});
    },
  };
}

/** Tries for as long as `patienceMs`; null where another process keeps the lock. */
export async function waitForWorkerLock(
  databaseUrl: string,
  folderId: string,
  shard: Shard,
  holder: LockHolder,
  patienceMs: number,
): Promise<WorkerLock | null> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const lock = await tryWorkerLock(databaseUrl, folderId, shard, holder);
    if (lock !== null || Date.now() > deadline) return lock;
    // Polled, for a statement that waits would hold back the horizon of every vacuum.
    await sleep(100 + Math.random() * 200);
  }
}

const lockNumber = ({ number, of }: Shard): number => of * 10_000 + number;

async function lockFor(client: pg.Client, folderId: string, shard: Shard): Promise<boolean> {
  const isDividedOtherwise = async () =>
    (await readWorkers(client, folderId)).some((holder) => holder.shard.of !== shard.of);
  // Before too: whoever stands by would else be seen with a lock at each attempt.
  if (await isDividedOtherwise()) return false;
  const { rows } = await client.query<{ locked: boolean }>(
    sql`select pg_try_advisory_lock(hashtext(${folderId}), ${lockNumber(shard)}) as locked`,
  );
  return rows[0]?.locked === true && !(await isDividedOtherwise());
}

export type RunningWorker = {
  readonly shard: Shard;
  readonly name: string;
  /** A command that does one pass, and does not look at the change log. */
  readonly isCommand: boolean;
  /** Null if the role that asks may not see it: another role's, without pg_read_all_stats. */
  readonly since: Date | null;
};

/** Who has locks of the data folder. */
export async function readWorkers(
  database: Pick<Database, 'query'>,
  folderId: string,
): Promise<RunningWorker[]> {
  const { rows } = await database.query<{
    lock: number;
    name: string | null;
    since: Date | null;
  }>(sql`
    select objid::bigint::int as lock, application_name as name, backend_start as since
    from pg_locks left join pg_stat_activity using (pid)
    where locktype = 'advisory' and granted and objsubid = 2
      and pg_locks.database = (select oid from pg_database where datname = current_database())
      and classid = (hashtext(${folderId})::bigint & 4294967295)::oid
    order by objid`);
  return rows.map(({ lock, name, since }) => ({
    shard: { number: lock % 10_000, of: Math.floor(lock / 10_000) },
    name: (name ?? '').replace(namePrefix, '').trim(),
    isCommand: name?.startsWith(namePrefix + commandMark) === true,
    since,
  }));
}
