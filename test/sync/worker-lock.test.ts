import { afterEach, describe, expect } from 'vitest';
import { readWorkers, tryWorkerLock, type WorkerLock } from '../../sync/commands/worker-lock.ts';
import { isolatedTest } from '../support/fixtures.ts';

const folder = 'folder-1';
const half = { number: 1, of: 2 };
const whole = { number: 1, of: 1 };

describe('the right to write to a data folder', () => {
  const locks: WorkerLock[] = [];

  const it = isolatedTest.extend(
    'take',
    ({ database }) =>
      async (shard: typeof half): Promise<WorkerLock | null> => {
        const lock = await tryWorkerLock(database.url, folder, shard);
        if (lock !== null) locks.push(lock);
        return lock;
      },
  );

  afterEach(async () => {
    for (const lock of locks.splice(0)) await lock.release();
  });

  it('is never seen with one that the folder is divided otherwise for', async ({
    database,
    take,
  }) => {
    expect(await take(half)).not.toBeNull();
    let isOver = false;
    const standBy = async () => {
      try {
        for (let attempt = 0; attempt < 40; attempt += 1) expect(await take(whole)).toBeNull();
      } finally {
        isOver = true;
      }
    };
    const look = async () => {
      while (!isOver) {
        const workers = await readWorkers(database.pool, folder);
        expect(workers.map(({ shard }) => shard)).toEqual([half]);
      }
    };
    const outcomes = await Promise.allSettled([standBy(), look()]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
  });

  it('is had by one division alone where several try at once', async ({ take }) => {
    for (let round = 0; round < 10; round += 1) {
      const taken = await Promise.all([take(whole), take(half), take({ number: 2, of: 2 })]);
      const divisions = [taken[0], taken[1] ?? taken[2]].filter((lock) => lock);
      expect(divisions.length).toBeLessThanOrEqual(1);
      for (const lock of locks.splice(0)) await lock.release();
    }
  });
});
