import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import {
  checkAtRandomTimes,
  compareWithHistory,
  requireTrueClaims,
} from '../support/chaos/checker.ts';
import { injectFaults, requestRebuilds } from '../support/chaos/fault-injection.ts';
import { difference } from '../support/chaos/generation.ts';
import { type Harness, randomSources, startHarness } from '../support/chaos/harness.ts';
import { compactHistory, purchasesNow } from '../support/chaos/history.ts';
import { problemsIn, waitForRecovery } from '../support/chaos/recovery.ts';
import { endPrepared, writeAtRandom } from '../support/chaos/writers.ts';

// CHAOS_SECONDS=600 runs longer. CHAOS_SEED=… repeats the random values of a run; its timing differs.
const seconds = Number(process.env.CHAOS_SECONDS ?? 20);
const seed = Number(process.env.CHAOS_SEED ?? Math.floor(Math.random() * 1_000_000_000));
/** Longer than all retries. */
const recoveryMs = 240_000;
const writers = 3;

const randomFor = randomSources(seed);
const it = test.extend(
  'harness',
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  async ({}, { onCleanup }) => {
    const harness = await startHarness(randomFor);
    onCleanup(harness.close);
    const disk = harness.disk.canBeFilled
      ? ''
      : ' (no disk can be mounted here, so the disk is never full)';
    console.log(`chaos: CHAOS_SEED=${seed} CHAOS_SECONDS=${seconds}${disk}`);
    return harness;
  },
);

describe('two workers during faults of processes, connections, the disk and Postgres', () => {
  it('always publish exactly the purchases of Postgres at the snapshot of the generation', {
    tags: ['slow'],
    timeout: seconds * 1_000 + 2 * recoveryMs,
  }, async ({ harness }) => {
    const deadline = performance.now() + seconds * 1_000;
    const monitoring = new AbortController();
    const monitor = harness.monitor.watch(harness.postgres.pool, monitoring.signal);
    const counts = { rounds: 0, transactions: 0, comparisons: 0 };
    try {
      do {
        const { transactions, comparisons } = await Promise.race([
          runRound(harness, counts.rounds),
          harness.failed,
          monitor.then(() => Promise.reject(new Error('the monitor stopped'))),
        ]);
        counts.rounds += 1;
        counts.transactions += transactions;
        counts.comparisons += comparisons;
      } while (performance.now() < deadline);
      await expectHealthyStatus(harness);
    } catch (error) {
      console.error(`CHAOS_SEED=${seed}, round ${counts.rounds}\n${harness.describe()}`);
      throw error;
    } finally {
      monitoring.abort();
      await monitor.catch(() => {});
    }
    console.log('chaos:', { ...counts, generations: harness.monitor.generations() });
    console.log('followers:', harness.followers.counts());
    expect(harness.followers.counts().pages).toBeGreaterThan(0);
    expect(counts.comparisons).toBeGreaterThan(0);
  });
});

/** Faults during random writes, and then the recovery without faults and writes. */
async function runRound(harness: Harness, round: number) {
  const { pool } = harness.postgres;
  const { hasLostHistory } = harness.sourceFaults;
  const random = randomFor('round', round);
  harness.log(`round ${round}`);
  const ending = new AbortController();
  const source = (...parts: (string | number)[]) => randomFor(round, ...parts);
  const clients = [
    checkAtRandomTimes(pool, harness.reader, source('checks'), hasLostHistory, ending.signal),
    ...Array.from({ length: writers }, (_, writer) =>
      writeAtRandom(
        pool,
        (transaction) => source('writer', writer, transaction),
        harness.log,
        ending.signal,
      ),
    ),
    requestRebuilds(harness, source('rebuilds'), ending.signal).then(() => 0),
    harness.followers.followAtRandom(pool, source('followers'), ending.signal).then(() => 0),
  ];
  const faults = 4 + random.integer(12);
  try {
    // The faults end the round. An error of a client ends it earlier.
    await Promise.race([
      injectFaults(harness, source('faults'), faults, ending.signal),
      Promise.all(clients),
    ]);
  } finally {
    ending.abort();
    await Promise.allSettled(clients);
  }
  const [comparisons = 0, ...written] = await Promise.all(clients);
  // Postgres may still recover from the last crash.
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
    comparisons: comparisons + (await expectRecovery(harness)),
  };
}

/** Requires that all commits are published, equal to Postgres, and no temporary file is left. */
async function expectRecovery(harness: Harness): Promise<number> {
  const { pool } = harness.postgres;
  harness.log('recovering');
  const { rows } = await pool.query<{ now: bigint }>(
    `select ${microsecondsOf('clock_timestamp()')} as now`,
  );
  const isRecovered = new AbortController();
  const claims = requireTrueClaims(
    pool,
    harness.reader,
    harness.dataDirectory,
    rows[0]?.now as bigint,
    isRecovered.signal,
  );
  try {
    const recovered = waitForRecovery(pool, harness.dataDirectory, AbortSignal.timeout(recoveryMs));
    await Promise.race([recovered, claims]);
  } finally {
    isRecovered.abort();
    await claims;
  }
  const organizations = await listOrganizations(pool);
  for (const { id } of organizations) {
    await compareWithHistory(pool, harness.reader, id, () => false);
    const generation = await harness.reader.read(id);
    const purchases = await purchasesNow(pool, id);
    expect(difference(generation?.rows ?? [], purchases)).toBeNull();
    expect(difference(await harness.followers.upToDate(pool, id), purchases)).toBeNull();
  }
  harness.log('recovered');
  harness.sourceFaults.recovered();
  await compactHistory(pool);
  return organizations.length;
}

async function expectHealthyStatus(harness: Harness): Promise<void> {
  const status = harness.command('status', '--json');
  expect(await status.exited(), status.output()).toBe(0);
  expect(problemsIn(JSON.parse(status.output()))).toEqual([]);
}
