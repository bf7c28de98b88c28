import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import type { Disk } from '../disk.ts';
import type { PostgresServer } from '../postgres-server.ts';
import type { Program } from '../program.ts';
import type { GenerationMonitor } from './checker.ts';
import type { SourceFaults } from './source-faults.ts';
import type { Workers } from './workers.ts';
import { endPrepared, isConnectionLoss, isDatabaseReplaced, type Log } from './writers.ts';

export type Environment = {
  readonly postgres: PostgresServer;
  readonly disk: Disk;
  readonly workers: Workers;
  /** Runs a command of the worker beside the running workers. */
  command(...args: string[]): Program;
  readonly log: Log;
  readonly monitor: GenerationMonitor;
  readonly sourceFaults: SourceFaults;
};

/** Resolves when the fault has ended. */
type Fault = (environment: Environment, random: RandomSource) => Promise<void>;

const anyWorker = ({ workers }: Environment, random: RandomSource): number =>
  random.integer(workers.count);

const killWorker: Fault = async (environment, random) => {
  const index = anyWorker(environment, random);
  environment.log(`killing worker ${index}`);
  environment.workers.signal(index, 'SIGKILL');
};

const killAllWorkers: Fault = async ({ workers, log }) => {
  log('killing all workers');
  for (let index = 0; index < workers.count; index += 1) workers.signal(index, 'SIGKILL');
};

async function endConnections(
  database: Database,
  pattern: string,
  probability: number,
): Promise<void> {
  await database.query(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name like ${pattern} and random() < ${probability}`);
}

const endSomeConnections: Fault = async ({ postgres, log }, random) => {
  log('ending some connections of the workers');
  await endConnections(postgres.pool, 'crm-data-service sync%', random.between(0.2, 1));
};

const endLockConnections: Fault = async ({ postgres, log }) => {
  log('ending the connections that hold locks');
  await endConnections(postgres.pool, 'crm-data-service sync lock%', 1);
};

/** Suspends a worker until, in most cases, another worker has its lock. */
const suspendWorker: Fault = async (environment, random) => {
  const { workers, postgres, log } = environment;
  const index = anyWorker(environment, random);
  log(`suspending worker ${index}`);
  workers.signal(index, 'SIGSTOP');
  try {
    if (random.chance(0.8)) {
      await endConnections(
        postgres.pool,
        `crm-data-service sync lock pid ${workers.pid(index)} %`,
        1,
      );
    }
    await sleep(random.between(100, 4_000));
  } finally {
    workers.signal(index, 'SIGCONT');
  }
};

const crashPostgres: Fault = async ({ postgres, log }) => {
  log('killing Postgres');
  await postgres.crash();
};

const restartPostgres: Fault = async ({ postgres, log }) => {
  log('restarting Postgres immediately');
  await postgres.restartImmediately();
};

const killOneBackend: Fault = async ({ postgres, log }) => {
  log('killing a backend');
  await postgres.killOneBackend();
};

const fillDisk: Fault = async ({ disk, log }, random) => {
  const left = random.chance(0.5) ? random.integer(8) : random.integer(200);
  const milliseconds = random.between(500, 5_000);
  if (!disk.canBeFilled) return;
  log(`filling the disk to ${left} free MiB`);
  try {
    await disk.fill(left * 2 ** 20);
    await sleep(milliseconds);
  } finally {
    await disk.free();
    log('the disk is free again');
  }
};

const endSomePrepared: Fault = ({ postgres }, random) => endPrepared(postgres.pool, random, 0.6);

const vacuum: Fault = async ({ postgres }) => {
  await postgres.pool.query('vacuum purchases, purchase_changes');
};

/** A fault that is listed twice is twice as probable. */
const faults: readonly Fault[] = [
  ...[killWorker, killWorker, killWorker, killAllWorkers],
  ...[endSomeConnections, endSomeConnections, endLockConnections, suspendWorker],
  ...[crashPostgres, crashPostgres, restartPostgres, killOneBackend],
  ...[fillDisk, fillDisk, endSomePrepared, endSomePrepared, vacuum],
];

/** Injects `count` faults: some at once, some after new generations. */
export async function injectFaults(
  environment: Environment,
  random: RandomSource,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  for (let left = count; left > 0 && !signal.aborted; left -= 1) {
    await sleep(random.between(50, 1_500), undefined, { signal }).catch(() => {});
    if (random.chance(0.6))
      await waitForGenerations(environment.monitor, 1 + random.integer(4), signal);
    const fault = random.chance(0.3)
      ? () => random.pick(environment.sourceFaults.all)(random)
      : random.pick(faults);
    try {
      await fault(environment, random);
    } catch (error) {
      // An earlier fault may have stopped Postgres.
      if (!isConnectionLoss(error) && !isDatabaseReplaced(error)) throw error;
    }
  }
}

const generationsTimeoutMs = 15_000;

/** Waits for new generations. The time is limited, because earlier faults may prevent them. */
async function waitForGenerations(
  monitor: GenerationMonitor,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  const enough = monitor.generations() + count;
  const deadline = performance.now() + generationsTimeoutMs;
  while (monitor.generations() < enough && !signal.aborted && performance.now() < deadline) {
    await sleep(50);
  }
}

/** Runs rebuild commands at random times, and kills some. Every command must end. */
export async function requestRebuilds(
  environment: Environment,
  random: RandomSource,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(random.between(500, 6_000), undefined, { signal }).catch(() => {});
    const order = random.fraction();
    const killAfterMs = random.chance(0.2) ? random.between(0, 4_000) : null;
    if (signal.aborted) return;
    const command = await startRebuild(environment, order).catch((error) => {
      if (!isConnectionLoss(error) && !isDatabaseReplaced(error)) throw error;
      return null;
    });
    if (command === null) continue;
    if (killAfterMs !== null) {
      await Promise.race([sleep(killAfterMs), command.exited()]);
      command.child.kill('SIGKILL');
    }
    const code = await endOf(command);
    environment.log(`a rebuild ended with ${code}: ${command.output().trim().split('\n').at(-1)}`);
  }
}

// Longer than all retries.
const commandTimeoutMs = 180_000;

async function endOf(command: Program): Promise<number | null> {
  const ended = new AbortController();
  const end = command.exited().finally(() => ended.abort());
  await Promise.race([end, sleep(commandTimeoutMs, undefined, { signal: ended.signal })]).catch(
    () => {},
  );
  if (ended.signal.aborted) return end;
  throw new Error(`a rebuild command did not end:\n${command.output()}`);
}

async function startRebuild(
  { postgres, command, log }: Environment,
  order: number,
): Promise<Program | null> {
  const { rows } = await postgres.pool.query<{ id: bigint }>(
    'select id from organizations order by id',
  );
  const organization = rows[Math.floor(order * rows.length)];
  if (organization === undefined) return null;
  const id = encodeId('organization', organization.id);
  log(`requesting a rebuild of ${id} (${organization.id})`);
  return command('rebuild', '--organization', id);
}
