import { describe, expect } from 'vitest';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { test as it } from '../support/fixtures.ts';
import type { PostgresProxy } from '../support/postgres-proxy.ts';
import { createTestWorker } from '../support/sync.ts';

type Steps = {
  readonly before?: () => Promise<unknown>;
  readonly first?: number;
  readonly step?: number;
};

/**
 * Repeats `work`, whose connections are lost after a number of messages, with `step` more messages
 * each time until none is lost. Returns how often `work` failed, and its other results.
 */
async function afterEachMessage<Result>(
  proxy: PostgresProxy,
  work: () => Promise<Result>,
  { before = async () => {}, first = 0, step = 1 }: Steps = {},
): Promise<{ readonly failures: number; readonly results: Result[] }> {
  const results: Result[] = [];
  let failures = 0;
  for (let messages = first; ; messages += step) {
    await before();
    proxy.messagesLeft = messages;
    await work().then(
      (result) => {
        results.push(result);
      },
      () => {
        failures += 1;
      },
    );
    const isComplete = proxy.messagesLeft > 0;
    proxy.messagesLeft = Number.POSITIVE_INFINITY;
    if (isComplete) return { failures, results };
  }
}

describe.each([
  ['with an error message', true],
  ['without an error message', false],
])('a connection that Postgres closes %s, after any message', (_, sendsError) => {
  it.beforeEach(({ proxy }) => {
    proxy.sendsError = sendsError;
  });

  it('fails a run of the worker, and the next run publishes all changes', {
    tags: ['slow'],
  }, async ({ directory, organizationId, proxy, add, expectEqual }) => {
    const pool = createPool(proxy.url, { max: 4, applicationName: 'test' });
    const worker = await createTestWorker(pool, directory);
    const run = () => worker.once([organizationId]);
    await add(3);
    // Runs are slow. One describe block tries the even numbers of messages, the other the odd ones.
    const steps = { first: sendsError ? 0 : 1, step: 2 };
    const loads = await afterEachMessage(proxy, run, steps);
    const before = async () => {
      await run();
      await add(1);
    };
    const changes = await afterEachMessage(proxy, run, { ...steps, before });
    expect(loads.failures).toBeGreaterThan(20);
    expect(changes.failures).toBeGreaterThan(20);
    await worker.close();
    await pool.end();
    await expectEqual();
  });
});
