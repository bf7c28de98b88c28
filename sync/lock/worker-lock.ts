import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import sql from 'sql-template-tag';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { prepareSession } from '../../src/postgres/connection/session.ts';
import { everyOrganization, type Shard } from '../../src/purchase-store/ticks/shard.ts';

/**
 * Settings of the worker's connections, in addition to those of each connection. `row_security = off`
 * makes a statement fail if a policy would hide rows.
 */
export const workerSettings = { lock_timeout: '5s', row_security: 'off' };

/**
 * An advisory lock in Postgres on a data folder or shard, with its own connection. The end of the
 * connection releases the lock.
 */
export type WorkerLock = {
  /** Aborted if the connection, and with it the lock, is lost. */
  readonly lost: AbortSignal;
  release(): Promise<void>;
};

const heartbeatMs = 2_000;
/** Keepalives of the server take eleven seconds to release the lock of a machine without power. */
const maxMissedHeartbeats = 4;
const responseTimeoutMs = 5_000;
/** @types/pg lacks `query_timeout`, which 0 would not override. */
const heartbeatQuery = { text: 'select', query_timeout: 2 ** 31 - 1 } as pg.QueryConfig;
/** A machine without power closes no connection. Keepalives let the server release the lock. */
const keepaliveSettings = {
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
};
const namePrefix = 'crm-data-service sync lock';
const commandMark = ' command';

/** A worker follows the change log. A command holds the lock for one pass. */
type LockHolder = 'worker' | 'command';

/** Null if another process has the lock, or divides the folder into other shards. */
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
    connectionTimeoutMillis: responseTimeoutMs,
    query_timeout: responseTimeoutMs,
    keepAlive: true,
  });
  const lost = new AbortController();
  const lose = () => lost.abort(new Error('the connection that holds the lock was lost'));
  client.on('error', lose);
  client.on('end', lose);
  try {
    await client.connect();
    await prepareSession(client, { ...workerSettings, ...keepaliveSettings });
    if (!(await lockFor(client, folderId, shard))) {
      await client.end();
      return null;
    }
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  // Counted in turns of the event loop: after a pause of this process, as on a busy machine, a
  // timeout would fire before a response that has arrived is read.
  let unanswered = 0;
  const heartbeat = setInterval(() => {
    unanswered += 1;
    if (unanswered > maxMissedHeartbeats) {
      lose();
      void client.end().catch(() => {});
    }
    if (unanswered > 1) return;
    client.query(heartbeatQuery).then(
      () => {
        unanswered = 0;
      },
      () => {},
    );
  }, heartbeatMs);
  return {
    lost: lost.signal,
    async release() {
      clearInterval(heartbeat);
      // A released lock is not a lost lock.
      client.off('end', lose);
      await client.end().catch(() => {});
    },
  };
}

/** Locks the whole folder for a command, within `timeoutMs`; null if another process has the lock. */
export async function waitForCommandLock(
  databaseUrl: string,
  folderId: string,
  timeoutMs: number,
): Promise<WorkerLock | null> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const lock = await tryWorkerLock(databaseUrl, folderId, everyOrganization, 'command');
    if (lock !== null || Date.now() > deadline) return lock;
    // Polled, because a waiting statement would hold back every vacuum.
    await sleep(100 + Math.random() * 200);
  }
}

const lockNumber = ({ number, of }: Shard): number => of * 10_000 + number;

async function lockFor(client: pg.Client, folderId: string, shard: Shard): Promise<boolean> {
  const isDividedOtherwise = async () =>
    (await readWorkers(client, folderId)).some((holder) => holder.shard.of !== shard.of);
  // Checked before locking too: otherwise a standby would hold a lock during each attempt.
  if (await isDividedOtherwise()) return false;
  const { rows } = await client.query<{ locked: boolean }>(
    sql`select pg_try_advisory_lock(hashtext(${folderId}), ${lockNumber(shard)}) as locked`,
  );
  return rows[0]?.locked === true && !(await isDividedOtherwise());
}

export type RunningWorker = {
  readonly shard: Shard;
  readonly name: string;
  /** A command runs one pass, and does not poll the change log. */
  readonly isCommand: boolean;
  /** Null if the worker has another role, and the querying role lacks pg_read_all_stats. */
  readonly since: Date | null;
};

/** The holders of locks of the data folder. */
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
