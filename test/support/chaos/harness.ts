import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import { createInstance } from '../../../src/duckdb/connection.ts';
import { createRandomSource, type RandomSource } from '../../../src/seed/random-source.ts';
import { type Disk, mountDisk } from '../disk.ts';
import { type Program, runProgram } from '../program.ts';
import { createTimekeeper } from './checker.ts';
import type { Stage } from './fault-injection.ts';
import { createGenerationReader, type GenerationReader } from './generation.ts';
import { furnish, keepHistory } from './history.ts';
import { type PostgresOfItsOwn, startPostgresOfItsOwn } from './postgres-of-its-own.ts';
import { createSourceFaults } from './source-faults.ts';
import { startWorkers } from './workers.ts';

/** A Postgres, a disk and workers of their own, and somebody who writes down what happens. */
export type Scene = Stage & {
  readonly dataDirectory: string;
  readonly reader: GenerationReader;
  /** Rejects where a worker ends that should not. */
  readonly failed: Promise<never>;
  /** The last events, which explain a failure. */
  describe(): string;
  close(): Promise<void>;
};

// The worker keeps 64 MiB free, and wants 128 more for each chunk of a load.
const diskMebibytes = 768;

export async function openScene(randomFor: (...parts: string[]) => RandomSource): Promise<Scene> {
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
    const postgres = await startPostgresOfItsOwn(directory);
    undo.push(() => postgres.remove());
    await keepHistory(postgres.pool);
    await furnish(postgres.pool, randomFor('shops'));
    const instance = await openInstance(directory);
    undo.push(async () => instance.closeSync());
    return await startScene({ randomFor, disk, postgres, instance, undo, close });
  } catch (error) {
    await close();
    throw error;
  }
}

const openInstance = (directory: string): Promise<DuckDBInstance> =>
  createInstance({
    threads: 1,
    memoryLimit: '512MiB',
    spillDirectory: join(directory, 'spill'),
  });

async function startScene(parts: {
  readonly randomFor: (...parts: string[]) => RandomSource;
  readonly disk: Disk;
  readonly postgres: PostgresOfItsOwn;
  readonly instance: DuckDBInstance;
  readonly undo: (() => Promise<unknown>)[];
  readonly close: () => Promise<void>;
}): Promise<Scene> {
  const { disk, postgres, instance } = parts;
  const dataDirectory = join(disk.path, 'data');
  const environment = {
    DATABASE_URL: postgres.url,
    DATA_DIR: dataDirectory,
    SYNC_POLL_INTERVAL_MS: '10',
  };
  const startedAt = performance.now();
  const events: string[] = [];
  const tell = (event: string) => {
    events.push(`${((performance.now() - startedAt) / 1000).toFixed(2)} s: ${event}`);
  };
  let fail: (error: Error) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  failed.catch(() => {});
  const sourceFaults = createSourceFaults(postgres, tell);
  const workers = startWorkers({
    count: 2,
    environment,
    randomFor: (place) => parts.randomFor('worker', String(place)),
    onUnexpectedEnd: (output) => fail(new Error(`a worker ended by itself:\n${output}`)),
  });
  parts.undo.push(() => workers.stop());
  const commands: Program[] = [];
  parts.undo.push(() => Promise.all(commands.map((command) => command.end('SIGKILL'))));
  return {
    ...{ postgres, disk, workers, tell, dataDirectory, failed },
    timekeeper: createTimekeeper(dataDirectory, sourceFaults.hasLostHistory),
    sourceFaults,
    command(...args) {
      const command = runProgram('sync/main.ts', args, environment);
      commands.push(command);
      return command;
    },
    reader: createGenerationReader(instance, dataDirectory, join(disk.path, 'read')),
    describe: () => [...events.slice(-80), workers.output()].join('\n'),
    close: parts.close,
  };
}

/** Streams of random values that depend on the seed and their purpose alone. */
export const randomSources =
  (seed: number) =>
  (...parts: (string | number)[]): RandomSource =>
    createRandomSource('chaos', seed, ...parts);
