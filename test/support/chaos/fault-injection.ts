import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import type { Disk } from '../disk.ts';
import type { Program } from '../program.ts';
import type { Timekeeper } from './checker.ts';
import type { PostgresOfItsOwn } from './postgres-of-its-own.ts';
import type { SourceFaults } from './source-faults.ts';
import type { Workers } from './workers.ts';
import { endPrepared, isConnectionLoss, isSourceGone, type Tell } from './writers.ts';

export type Stage = {
  readonly postgres: PostgresOfItsOwn;
  readonly disk: Disk;
  readonly workers: Workers;
  /** Runs a command of the worker's beside it. */
  command(...args: string[]): Program;
  readonly tell: Tell;
  readonly timekeeper: Timekeeper;
  readonly sourceFaults: SourceFaults;
};

/** Something that goes wrong, and is over when it resolves. */
type Mishap = (stage: Stage, random: RandomSource) => Promise<void>;

const anyWorker = ({ workers }: Stage, random: RandomSource): number =>
  random.integer(workers.count);

const killWorker: Mishap = async (stage, random) => {
  const place = anyWorker(stage, random);
  stage.tell(`killing worker ${place}`);
  stage.workers.signal(place, 'SIGKILL');
};

const killAllWorkers: Mishap = async ({ workers, tell }) => {
  tell('killing all workers');
  for (let place = 0; place < workers.count; place += 1) workers.signal(place, 'SIGKILL');
};

async function cut(database: Database, pattern: string, probability: number): Promise<void> {
  await database.query(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name like ${pattern} and random() < ${probability}`);
}

const cutSomeConnections: Mishap = async ({ postgres, tell }, random) => {
  tell('cutting some of the workers’ connections');
  await cut(postgres.pool, 'crm-data-service sync%', random.between(0.2, 1));
};

const cutLocks: Mishap = async ({ postgres, tell }) => {
  tell('cutting the connections that hold locks');
  await cut(postgres.pool, 'crm-data-service sync lock%', 1);
};

/** A worker that is away for a while, and comes back to find that another one has its place. */
const suspendWorker: Mishap = async (stage, random) => {
  const { workers, postgres, tell } = stage;
  const place = anyWorker(stage, random);
  tell(`suspending worker ${place}`);
  workers.signal(place, 'SIGSTOP');
  try {
    if (random.chance(0.8)) {
      await cut(postgres.pool, `crm-data-service sync lock pid ${workers.pid(place)} %`, 1);
    }
    await sleep(random.between(100, 4_000));
  } finally {
    workers.signal(place, 'SIGCONT');
  }
};

const crashPostgres: Mishap = async ({ postgres, tell }) => {
  tell('killing Postgres');
  await postgres.crash();
};

const restartPostgres: Mishap = async ({ postgres, tell }) => {
  tell('restarting Postgres immediately');
  await postgres.restartImmediately();
};

const killOneBackend: Mishap = async ({ postgres, tell }) => {
  tell('killing a backend');
  await postgres.killOneBackend();
};

const fillDisk: Mishap = async ({ disk, tell }, random) => {
  const left = random.chance(0.5) ? random.integer(8) : random.integer(200);
  const milliseconds = random.between(500, 5_000);
  if (!disk.canBeFilled) return;
  tell(`filling the disk, but for ${left} MiB`);
  try {
    await disk.fill(left * 2 ** 20);
    await sleep(milliseconds);
  } finally {
    await disk.free();
    tell('the disk is free again');
  }
};

const endSomePrepared: Mishap = ({ postgres }, random) => endPrepared(postgres.pool, random, 0.6);

const vacuum: Mishap = async ({ postgres }) => {
  await postgres.pool.query('vacuum purchases, purchase_changes');
};

/** As often as they stand here. */
const mishaps: readonly Mishap[] = [
  ...[killWorker, killWorker, killWorker, killAllWorkers],
  ...[cutSomeConnections, cutSomeConnections, cutLocks, suspendWorker],
  ...[crashPostgres, crashPostgres, restartPostgres, killOneBackend],
  ...[fillDisk, fillDisk, endSomePrepared, endSomePrepared, vacuum],
];

/** So many mishaps, some right after the other, some with room to recover between them. */
export async function sabotage(
  stage: Stage,
  random: RandomSource,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  for (let left = count; left > 0 && !signal.aborted; left -= 1) {
    await sleep(random.between(50, 1_500), undefined, { signal }).catch(() => {});
    if (random.chance(0.6)) await untilPublished(stage.timekeeper, 1 + random.integer(4), signal);
    const mishap = random.chance(0.3)
      ? () => random.pick(stage.sourceFaults.all)(random)
      : random.pick(mishaps);
    try {
      await mishap(stage, random);
    } catch (error) {
      // Two mishaps at once: a cut needs a Postgres that answers.
      if (!isConnectionLoss(error) && !isSourceGone(error)) throw error;
    }
  }
}

const recoveryPatienceMs = 15_000;

/** Waits for generations, but not for ever: what went wrong before may keep them from coming. */
async function untilPublished(
  timekeeper: Timekeeper,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  const enough = timekeeper.generations() + count;
  const deadline = performance.now() + recoveryPatienceMs;
  while (timekeeper.generations() < enough && !signal.aborted && performance.now() < deadline) {
    await sleep(50);
  }
}

/** Asks for rebuilds now and then, and gives up on some. Every command must come to an end. */
export async function askForRebuilds(
  stage: Stage,
  random: RandomSource,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(random.between(500, 6_000), undefined, { signal }).catch(() => {});
    const order = random.fraction();
    const patience = random.chance(0.2) ? random.between(0, 4_000) : null;
    if (signal.aborted) return;
    const command = await startRebuild(stage, order).catch((error) => {
      if (!isConnectionLoss(error) && !isSourceGone(error)) throw error;
      return null;
    });
    if (command === null) continue;
    if (patience !== null) {
      await Promise.race([sleep(patience), command.exited()]);
      command.child.kill('SIGKILL');
    }
    const code = await endOf(command);
    stage.tell(`a rebuild ended with ${code}: ${command.output().trim().split('\n').at(-1)}`);
  }
}

// Far more than any retry waits.
const commandPatienceMs = 180_000;

async function endOf(command: Program): Promise<number | null> {
  const gaveUp = new AbortController();
  const end = command.exited().finally(() => gaveUp.abort());
  await Promise.race([end, sleep(commandPatienceMs, undefined, { signal: gaveUp.signal })]).catch(
    () => {},
  );
  if (gaveUp.signal.aborted) return end;
  throw new Error(`a rebuild was asked for and never answered:\n${command.output()}`);
}

async function startRebuild(
  { postgres, command, tell }: Stage,
  order: number,
): Promise<Program | null> {
  const { rows } = await postgres.pool.query<{ id: bigint }>(
    'select id from organizations order by id',
  );
  const organization = rows[Math.floor(order * rows.length)];
  if (organization === undefined) return null;
  const id = encodeId('organization', organization.id);
  tell(`asking for a rebuild of ${id} (${organization.id})`);
  return command('rebuild', '--organization', id);
}
