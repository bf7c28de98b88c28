import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { microsecondsOf } from '../../src/postgres/instants.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { compareWithHistory, requireTrueClaims, witness } from '../support/chaos/checker.ts';
import { askForRebuilds, sabotage } from '../support/chaos/fault-injection.ts';
import { difference } from '../support/chaos/generation.ts';
import { openScene, randomSources, type Scene } from '../support/chaos/harness.ts';
import { purchasesNow, shortenHistory } from '../support/chaos/history.ts';
import { complaintsIn, untilSettled } from '../support/chaos/settled.ts';
import { endPrepared, writeAtRandom } from '../support/chaos/writers.ts';

/*
 * CHAOS_SECONDS=600 goes on for longer, CHAOS_SEED=… does the same again, as far
 * as its timing can be had again.
 */
const seconds = Number(process.env.CHAOS_SECONDS ?? 40);
const seed = Number(process.env.CHAOS_SEED ?? Math.floor(Math.random() * 1_000_000_000));
/** Far more than any retry waits: it is here to end a test that hangs. */
const settlingMs = 240_000;
const writers = 3;

describe('workers that are killed, cut off and starved while everybody writes', () => {
  const randomFor = randomSources(seed);
  let scene: Scene;

  beforeAll(async () => {
    scene = await openScene(randomFor);
    const disk = scene.disk.canBeFilled ? '' : ' (no disk can be mounted here: it never fills up)';
    console.log(`chaos: CHAOS_SEED=${seed} CHAOS_SECONDS=${seconds}${disk}`);
  }, 120_000);
  afterAll(() => scene?.close(), 120_000);

  it('publish at every moment what Postgres held at the snapshot they name', {
    timeout: seconds * 1_000 + 2 * settlingMs,
  }, async () => {
    const deadline = performance.now() + seconds * 1_000;
    const timekeeping = new AbortController();
    const time = scene.timekeeper.watch(scene.postgres.pool, timekeeping.signal);
    const counts = { rounds: 0, transactions: 0, comparisons: 0 };
    try {
      do {
        const { transactions, comparisons } = await Promise.race([
          playRound(counts.rounds),
          scene.failed,
          time.then(() => Promise.reject(new Error('the clock stopped'))),
        ]);
        counts.rounds += 1;
        counts.transactions += transactions;
        counts.comparisons += comparisons;
      } while (performance.now() < deadline);
      await expectHealthyStatus();
    } catch (error) {
      console.error(`CHAOS_SEED=${seed}, round ${counts.rounds}\n${scene.describe()}`);
      throw error;
    } finally {
      timekeeping.abort();
      await time.catch(() => {});
    }
    console.log('chaos:', { ...counts, generations: scene.timekeeper.generations() });
    expect(counts.comparisons).toBeGreaterThan(0);
  });

  /** A while of chaos, and then of peace, in which everything must come right by itself. */
  async function playRound(round: number) {
    const { pool } = scene.postgres;
    const { hasLostHistory } = scene.sourceFaults;
    const random = randomFor('round', round);
    scene.tell(`round ${round}`);
    const over = new AbortController();
    const source = (...parts: (string | number)[]) => randomFor(round, ...parts);
    const actors = [
      witness(pool, scene.reader, source('witness'), hasLostHistory, over.signal),
      ...Array.from({ length: writers }, (_, writer) =>
        writeAtRandom(
          pool,
          (transaction) => source('writer', writer, transaction),
          scene.tell,
          over.signal,
        ),
      ),
      askForRebuilds(scene, source('rebuilds'), over.signal).then(() => 0),
    ];
    const mishaps = 4 + random.integer(12);
    try {
      // Whoever fails first ends it.
      await Promise.race([
        sabotage(scene, source('sabotage'), mishaps, over.signal),
        Promise.all(actors),
      ]);
    } finally {
      over.abort();
      await Promise.allSettled(actors);
    }
    const [comparisons = 0, ...written] = await Promise.all(actors);
    // It may still recover from the last crash.
    while (
      await pool.query('select').then(
        () => false,
        () => true,
      )
    )
      await sleep(100);
    await endPrepared(pool, random, 1);
    return {
      transactions: written.reduce((sum, count) => sum + count, 0),
      comparisons: comparisons + (await settle()),
    };
  }

  /** Nothing goes wrong any more: all must be published, equal to Postgres, and tidy. */
  async function settle(): Promise<number> {
    const { pool } = scene.postgres;
    scene.tell('settling');
    const { rows } = await pool.query<{ now: bigint }>(
      `select ${microsecondsOf('clock_timestamp()')} as now`,
    );
    const isSettled = new AbortController();
    const claims = requireTrueClaims(
      pool,
      scene.reader,
      scene.dataDirectory,
      rows[0]?.now as bigint,
      isSettled.signal,
    );
    try {
      const settled = untilSettled(pool, scene.dataDirectory, AbortSignal.timeout(settlingMs));
      await Promise.race([settled, claims]);
    } finally {
      isSettled.abort();
      await claims;
    }
    const organizations = await listOrganizations(pool);
    for (const { id } of organizations) {
      await compareWithHistory(pool, scene.reader, id, () => false);
      const generation = await scene.reader.read(id);
      expect(difference(generation?.rows ?? [], await purchasesNow(pool, id))).toBeNull();
    }
    scene.tell('settled');
    scene.sourceFaults.settled();
    await shortenHistory(pool);
    return organizations.length;
  }

  async function expectHealthyStatus(): Promise<void> {
    const status = scene.command('status', '--json');
    expect(await status.exited(), status.output()).toBe(0);
    expect(complaintsIn(JSON.parse(status.output()))).toEqual([]);
  }
});
