import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import { createInstance } from '../../../src/duckdb/connection.ts';
import { createRandomSource, type RandomSource } from '../../../src/seed/random-source.ts';
import { type Disk, mountDisk } from '../disk.ts';
import { type PostgresServer, startPostgresServer } from '../postgres-server.ts';
import { type Program, runProgram } from '../program.ts';
import { createGenerationMonitor } from './checker.ts';
import type { Environment } from './fault-injection.ts';
import { createFollowers, type Followers } from './follower.ts';
import { createGenerationReader, type GenerationReader } from './generation.ts';
import { addShops, recordHistory } from './history.ts';
import { createSourceFaults } from './source-faults.ts';
import { startWorkers } from './workers.ts';

/** A Postgres server, a disk, workers and a log of events. */
export type Harness = Environment & {
  readonly dataDirectory: string;
  readonly reader: GenerationReader;
  readonly followers: Followers;
  /** Rejects if a worker ends unexpectedly. */
  readonly failed: Promise<never>;
  /** The last events and the output of the workers. */
  describe(): string;
  close(): Promise<void>;
};

// The worker keeps 64 MiB free, and needs 128 more for each chunk of a load.
const diskMebibytes = 768;

export async function startHarness(
  randomFor: (...parts: string[]) => RandomSource,
): Promise<Harness> {
  const directory = await mkdtemp(join(tmpdir(), 'crm-data-service-chaos-'));
  const undo: (() => Promise<unknown>)[] = [
    () => rm(directory, { recursive: true, force: true, maxRetries: 5 }),
  ];
  const close = async () => {
    for (let step = undo.pop(); step !== undefined; step = undo.pop()) await step();
  };
  try {
    const disk = await mountDisk(join(directory, 'disk'), diskMebibytes);
    undo.push(() => disk.unmount());
    const postgres = await startPostgresServer(directory);
    undo.push(() => postgres.remove());
    await recordHistory(postgres.pool);
    await addShops(postgres.pool, randomFor('shops'));
    const instance = await openInstance(directory);
    undo.push(async () => instance.closeSync());
    // Each reader attaches bases under the same names.
    const followersInstance = await openInstance(directory);
    undo.push(async () => followersInstance.closeSync());
    const stores = { disk, postgres, instance, followersInstance };
    return await assembleHarness({ randomFor, ...stores, undo, close });
  } catch (error) {
    await close();
    throw error;
  }
}

const openInstance = (directory: string): Promise<DuckDBInstance> =>
  createInstance({
    threads: 1,
    memoryLimit: '512MiB',
    dataDirectory: directory,
    spillDirectory: join(directory, 'spill'),
  });

async function assembleHarness(parts: {
  readonly randomFor: (...parts: string[]) => RandomSource;
  readonly disk: Disk;
  readonly postgres: PostgresServer;
  readonly instance: DuckDBInstance;
  readonly followersInstance: DuckDBInstance;
  readonly undo: (() => Promise<unknown>)[];
  readonly close: () => Promise<void>;
}): Promise<Harness> {
  const { disk, postgres, instance } = parts;
  const dataDirectory = join(disk.path, 'data');
  const environment = {
    DATABASE_URL: postgres.url,
    DATA_DIR: dataDirectory,
    SYNC_POLL_INTERVAL_MS: '10',
    CHANGES_MAX_BYTES: '2000000',
  };
  const startedAt = performance.now();
  const events: string[] = [];
  const log = (event: string) => {
    events.push(`${((performance.now() - startedAt) / 1000).toFixed(2)} s: ${event}`);
  };
  let fail: (error: Error) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  failed.catch(() => {});
  const sourceFaults = createSourceFaults(postgres, log);
  const workers = startWorkers({
    count: 2,
    environment,
    randomFor: (place) => parts.randomFor('worker', String(place)),
    onUnexpectedEnd: (output) => fail(new Error(`a worker ended unexpectedly:\n${output}`)),
  });
  parts.undo.push(() => workers.stop());
  const reader = createGenerationReader(instance, dataDirectory);
  parts.undo.push(reader.close);
  const followersReader = createGenerationReader(parts.followersInstance, dataDirectory);
  parts.undo.push(followersReader.close);
  const followers = createFollowers(dataDirectory, followersReader);
  parts.undo.push(async () => followers.close());
  const commands: Program[] = [];
  parts.undo.push(() => Promise.all(commands.map((command) => command.end('SIGKILL'))));
  return {
    ...{ postgres, disk, workers, log, dataDirectory, failed },
    monitor: createGenerationMonitor(dataDirectory, sourceFaults.hasLostHistory),
    sourceFaults,
    command(...args) {
      const command = runProgram('sync/main.ts', args, environment);
      commands.push(command);
      return command;
    },
    reader,
    followers,
    describe: () => [...events.slice(-80), workers.output()].join('\n'),
    close: parts.close,
  };
}

/** Random values that depend only on the seed and the given parts. */
export const randomSources =
  (seed: number) =>
  (...parts: (string | number)[]): RandomSource =>
    createRandomSource('chaos', seed, ...parts);
