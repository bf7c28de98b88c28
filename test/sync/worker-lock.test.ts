import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { readWorkers, tryWorkerLock, type WorkerLock } from '../../sync/lock/worker-lock.ts';
import { test } from '../support/fixtures.ts';

const folder = 'folder-1';
const firstHalf = { number: 1, of: 2 };
const secondHalf = { number: 2, of: 2 };
const whole = { number: 1, of: 1 };

const it = test
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('locks', ({}, { onCleanup }) => {
    const locks: WorkerLock[] = [];
    onCleanup(() => releaseAll(locks));
    return locks;
  })
  .extend('tryLock', ({ database, locks }) => async (shard: typeof whole) => {
    const lock = await tryWorkerLock(database.url, folder, shard);
    if (lock !== null) locks.push(lock);
    return lock;
  });

async function releaseAll(locks: WorkerLock[]): Promise<void> {
  for (const lock of locks.splice(0)) await lock.release();
}

describe('the lock of a data folder', () => {
  it('is refused to a standby with another number of shards, which status never lists', {
    tags: ['slow'],
  }, async ({ database, tryLock }) => {
    expect(await tryLock(firstHalf)).not.toBeNull();
    let hasEnded = false;
    const retryAsStandby = async () => {
      try {
        for (let attempt = 0; attempt < 40; attempt += 1) expect(await tryLock(whole)).toBeNull();
      } finally {
        hasEnded = true;
      }
    };
    const listWorkers = async () => {
      while (!hasEnded) {
        const workers = await readWorkers(database.pool, folder);
        expect(workers.map(({ shard }) => shard)).toEqual([firstHalf]);
      }
    };
    const outcomes = await Promise.allSettled([retryAsStandby(), listWorkers()]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
  });

  it('is given to workers with the same number of shards if several try at once', {
    tags: ['slow'],
  }, async ({ locks, tryLock }) => {
    for (let round = 0; round < 10; round += 1) {
      const [ofWhole, ...ofHalves] = await Promise.all(
        [whole, firstHalf, secondHalf].map((shard) => tryLock(shard)),
      );
      const hasHalves = ofHalves.some((lock) => lock !== null);
      expect(ofWhole !== null && hasHalves).toBe(false);
      await releaseAll(locks);
    }
  });

  it('is kept if the response to a heartbeat arrives while the process is paused', {
    tags: ['slow'],
  }, async ({ database: { pool }, tryLock }) => {
    const lock = await tryLock(whole);
    const readSession = async () => {
      const { rows } = await pool.query<{ pid: number; started: Date }>(
        `select pid, query_start as started from pg_stat_activity
         where application_name like 'crm-data-service sync lock%' and datname = current_database()`,
      );
      return rows[0] as { pid: number; started: Date };
    };
    const { pid } = await readSession();
    process.kill(pid, 'SIGSTOP');
    const resume = spawn('sh', ['-c', `sleep 5; kill -CONT ${pid}`]);
    // The heartbeat is due every two seconds.
    await sleep(2_500);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 6_000);
    const { started } = await readSession();
    await vi.waitFor(
      async () =>
        expect((await readSession()).started.getTime()).toBeGreaterThan(started.getTime()),
      20_000,
    );
    expect(lock?.lost.aborted).toBe(false);
    resume.kill();
  });
});
