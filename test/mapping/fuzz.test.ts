import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import { createRandomSource } from '../../src/seed/random-source.ts';
import { startWorkers, type Workers } from '../support/chaos/workers.ts';
import { documentedTest as it } from '../support/documented-database.ts';
import { type Canaries, checkCanaries, writeCanaries } from './fuzz/canaries.ts';
import type { Need } from './fuzz/change.ts';
import { randomChange } from './fuzz/changes.ts';
import { createFuzzedShop, type FuzzedShop, open } from './fuzz/fuzzed-shop.ts';
import { repair, runTogether } from './fuzz/operator.ts';
import { requireOwnRefusal, reserve, writeRandomly } from './fuzz/sessions.ts';
import { untilSettled } from './fuzz/settled.ts';
import { expectRowsOfOthers, startOtherWriters } from './other-writers.ts';

// MAPPING_FUZZ_CHANGES=… is the length of a run. MAPPING_FUZZ_SEED=… repeats its random values; its timing differs.
const seed = Number(process.env.MAPPING_FUZZ_SEED ?? 1);
const changes = Number(process.env.MAPPING_FUZZ_CHANGES ?? 3);

const randomFor = (...of: (string | number)[]) => createRandomSource('mapping fuzz', seed, ...of);

it('equals a shop whose structure changes at random, and never refuses a write, whatever is killed', {
  timeout: 180_000 + changes * 15_000,
}, async ({ as, directory }) => {
  const events = createEvents();
  const random = randomFor();
  const hasOneRole = random.chance(0.4);
  const fuzzed = await createFuzzedShop(as, hasOneRole);
  const { databases, shop, sites, url, workerUrl } = fuzzed;
  events.add(`mapped with ${hasOneRole ? 'one role' : 'four roles'}`);
  let unexpected = '';
  const workers = startWorkers({
    count: 1,
    environment: { DATABASE_URL: workerUrl, DATA_DIR: directory, SYNC_POLL_INTERVAL_MS: '10' },
    randomFor: (index) => randomFor('worker', index),
    onUnexpectedEnd: (output) => {
      unexpected = output;
    },
  });
  onTestFinished(workers.stop);
  const ending = new AbortController();
  const othersEnd = await startOtherWriters(databases.store, ending.signal);
  const canaries: Canaries = new Map();
  const checker = open(url, 'checker');
  const running = Promise.all([
    othersEnd(),
    ...[1, 2, 3].map((writer) => writeRandomly(shop, randomFor('writer', writer), ending.signal)),
    writeCanaries(shop, randomFor('canaries'), canaries, ending.signal),
    checkCanaries(checker, sites, canaries, ending.signal),
  ]);
  running.catch(() => ending.abort());
  onTestFinished(async () => {
    ending.abort();
    await running.catch(() => {});
  });
  try {
    await changeRandomly(fuzzed, workers, events, ending.signal);
    ending.abort();
    await running;
    await expectRowsOfOthers(databases.store);
    expect(unexpected).toBe('');
  } catch (error) {
    console.log(`MAPPING_FUZZ_SEED=${seed}\n${events.last()}\n${workers.output()}`);
    // A writer or the checker may have found the cause.
    if (ending.signal.aborted) await running;
    throw error;
  }
  const refusals = [...shop.refusals].map(([refusal, count]) => `${count} × ${refusal}`);
  events.add(`${shop.writes} transactions; ${refusals.join('; ')}`);
});

type Events = ReturnType<typeof createEvents>;

function createEvents() {
  const events: string[] = [];
  const startedAt = performance.now();
  return {
    add(event: string): void {
      events.push(`${((performance.now() - startedAt) / 1_000).toFixed(1)} s: ${event}`);
      if (changes > 50) console.log(events.at(-1));
    },
    last: (): string => events.slice(-50).join('\n'),
  };
}

/** Changes the structure, repairs it sometimes, and kills the worker, until the last change is repaired. */
async function changeRandomly(
  fuzzed: FuzzedShop,
  workers: Workers,
  events: Events,
  signal: AbortSignal,
): Promise<void> {
  const { databases, shop, sites } = fuzzed;
  const { roles } = shop;
  const random = randomFor('changes');
  const needs = new Set<Need>();
  let kills = 0;
  const repairAll = async () => {
    events.add(`repair ${[...needs].join(', ')}`);
    await repair(databases, shop.store, { needs, roles, sites });
    needs.clear();
  };
  const settle = async () => {
    await repairAll();
    await untilSettled(fuzzed);
    events.add('settled');
  };
  for (let done = 0; done < changes && !signal.aborted; done += 1) {
    for (const need of await changeOnce(fuzzed, events, random, needs.has('views'))) {
      needs.add(need);
    }
    await sleep(random.between(0, random.chance(0.3) ? 1_500 : 200));
    if (random.chance(0.35)) {
      kills += 1;
      workers.signal(0, 'SIGKILL');
    }
    if (random.chance(0.4)) await repairAll();
    if (random.chance(0.05)) await settle();
  }
  await settle();
  events.add(`${changes} changes, ${kills} kills`);
}

/** Returns what an operator has to do then. */
async function changeOnce(
  fuzzed: FuzzedShop,
  events: Events,
  random: ReturnType<typeof randomFor>,
  isViewMissing: boolean,
): Promise<readonly Need[]> {
  const { shop, sites } = fuzzed;
  const { roles } = shop;
  const circumstances = { random, roles, sites, isViewMissing, reserve: reserve(shop) };
  const { store, change } = randomChange(shop.store, circumstances);
  const { name, transactions, needs } = change;
  const isKept = transactions.length > 1 || random.chance(0.92);
  events.add(`${name}${isKept ? '' : ', rolled back'}`);
  shop.version += 1;
  const { version } = shop;
  try {
    for (const statements of transactions) {
      await runAmongWriters(fuzzed, statements, isKept, transactions.length > 1);
      if (transactions.length > 1) await sleep(random.between(0, 500));
    }
    if (!isKept) return [];
    shop.store = store;
    return needs;
  } catch (error) {
    events.add(`failed: ${error}`);
    requireOwnRefusal(shop, error, version, transactions.flat().join('; '));
    if (transactions.length > 1) throw error;
    return [];
  } finally {
    shop.version += 1;
  }
}

/** A transaction may end in a deadlock with a writer. One of several is repeated then. */
async function runAmongWriters(
  { databases, shop }: FuzzedShop,
  statements: readonly string[],
  isKept: boolean,
  isRepeated: boolean,
): Promise<void> {
  for (;;) {
    try {
      return await runTogether(databases.store, statements, isKept);
    } catch (error) {
      requireOwnRefusal(shop, error, shop.version, statements.join('; '));
      const isDeadlock = error instanceof pg.DatabaseError && error.code === '40P01';
      if (!isRepeated || !isDeadlock) throw error;
    }
  }
}
