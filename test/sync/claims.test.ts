import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect } from 'vitest';
import { exactTypes } from '../../src/postgres/connection/pool.ts';
import { createRandomSource } from '../../src/seed/random-source.ts';
import { readPublished } from '../support/chaos/generation.ts';
import { claimNames, createClient } from '../support/claims/client.ts';
import { addClaimsShop, type Shop, writers } from '../support/claims/shop.ts';
import { test } from '../support/fixtures.ts';

// CLAIMS_SECONDS=180 runs longer. CLAIMS_SEED repeats the random values of a run; its timing differs.
const seconds = Number(process.env.CLAIMS_SECONDS ?? 4);
const seed = Number(process.env.CLAIMS_SEED ?? Math.floor(Math.random() * 1_000_000_000));
const clients = 12;
/** Postgres serves an organization until its first load is published. */
const newShopEveryMs = 3_000;
const maxShops = 4;

test('responses show all commits before their instants, and instants do not go back, while the API and the worker are slow', {
  timeout: seconds * 1_000 + 400_000,
}, async ({ database: { url }, directory, program, onTestFinished }) => {
  // Each writer has a connection. The pool of other tests stops waiting after five seconds.
  const max = maxShops * writers.length + 1;
  const pool = new pg.Pool({ connectionString: url, max, types: exactTypes });
  onTestFinished(() => pool.end());
  const randomFor = (...parts: (string | number)[]) => createRandomSource('claims', seed, ...parts);
  const shops: Shop[] = [await addClaimsShop(pool, true), await addClaimsShop(pool, false)];
  const start = (path: string, environment: Record<string, string>) =>
    program('test/support/claims/delays.ts', [String(seed), path], environment);
  const worker = start('test/support/chaos/small-chunks.ts', { SYNC_POLL_INTERVAL_MS: '20' });
  const api = start('test/support/claims/api.ts', {
    MIN_DATA_AS_OF_WAIT_MS: '60000',
    RATE_LIMIT_PER_MINUTE: '1000000',
    LOG_LEVEL: 'warn',
    QUERY_TIMEOUT_MS: '60000',
    EXPORTS_PER_KEY: '20',
    EXPORT_CONCURRENCY: '20',
  });
  const describe = () => `CLAIMS_SEED=${seed}\n${worker.output()}\n${api.output().slice(-20_000)}`;
  const listening = api.printed(/Listening on (http:\/\/[^"\s]+)/);
  const [, origin = ''] = await listening;

  const startedAt = performance.now();
  const counts = new Map(claimNames.map((name) => [name, 0]));
  const logs = new Set<string>();
  let isOver = false;
  const write = async (shop: Shop, writer: (typeof writers)[number]) => {
    const random = randomFor('writer', String(shop.id), writer);
    for (; !isOver; await sleep(random.between(0, 60 * shops.length)))
      await shop.write(writer, random);
  };
  const writeAll = (shop: Shop) => writers.map((writer) => write(shop, writer));
  const read = async (number: number) => {
    const random = randomFor('client', number);
    const client = createClient(origin, random);
    for (let request = number; !isOver; request += 1) {
      const shop = random.pick(shops);
      const name = claimNames[request % claimNames.length] as string;
      if (await client.check(shop, name)) counts.set(name, (counts.get(name) as number) + 1);
    }
  };
  /** Resolves after the time, once every kind of response has been checked, and files have been replaced. */
  const grow = async (): Promise<void> => {
    const isCovered = () =>
      [...counts.values()].every((count) => count >= 2) &&
      logs.size > shops.length &&
      /files are closed/.test(api.output()) &&
      /instance becomes invalid/.test(api.output());
    for (let addedAt = startedAt; !isOver; await sleep(20)) {
      const now = performance.now();
      for (const { id } of shops) logs.add(readPublished(directory, id)?.current.log ?? '');
      if (now - startedAt > seconds * 1_000 && isCovered()) return;
      if (now - addedAt < newShopEveryMs || shops.length === maxShops) continue;
      addedAt = now;
      const shop = await addClaimsShop(pool, false);
      shops.push(shop);
      running.push(...writeAll(shop));
    }
  };
  const running = [
    ...shops.flatMap(writeAll),
    ...Array.from({ length: clients }, (_, number) => read(number)),
  ];
  const ended = [worker, api].map((each) =>
    each.exited().then(() => Promise.reject(new Error(`a program ended:\n${each.output()}`))),
  );
  try {
    await Promise.race([grow(), ...running, ...ended]);
    isOver = true;
    await Promise.all(running);
  } catch (error) {
    const elapsed = Math.round((performance.now() - startedAt) / 1_000);
    console.error(describe(), Object.fromEntries(counts), `after ${elapsed} s`);
    throw error;
  } finally {
    isOver = true;
    await Promise.allSettled(running);
    await Promise.allSettled([
      Promise.allSettled(ended),
      worker.end('SIGTERM'),
      api.end('SIGTERM'),
    ]);
  }
  console.log(`claims: CLAIMS_SEED=${seed}`, Object.fromEntries(counts));
  expect(Math.min(...counts.values())).toBeGreaterThan(0);
});
