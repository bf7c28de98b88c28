import { describe, expect } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import { testServices } from '../support/services.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

describe('a key whose queries exceed the queue limit', () => {
  let engine: PurchaseEngine;
  let api: TestApi;
  let greedy: string;
  let modest: string;
  /** Queries that have come to the gate. */
  let arrived: number;
  /** Lets questions through to DuckDB once so many have come, all in one go. */
  let gate: { readonly awaited: number; readonly open: () => void; readonly opened: Promise<void> };

  it.beforeAll(async ({ database, directory, worker }) => {
    const organization = await addOrganization(database.pool);
    ({ secret: greedy } = await addKey(database.pool, organization));
    ({ secret: modest } = await addKey(database.pool, organization));
    await worker.syncAll();
    engine = await createTestDuckDBEngine(directory, {
      concurrency: 1,
      queueLimit: 3,
      queueLimitPerClient: 2,
    });
    const gated: PurchaseEngine = {
      ...engine,
      forSource: () => gated,
      stats: async (...question) => {
        arrived += 1;
        if (arrived === gate.awaited) gate.open();
        await gate.opened;
        return engine.stats(...question);
      },
    };
    api = await createTestApi(database.pool, directory, {
      services: testServices(database.pool, gated),
    });
    return async () => {
      await api.close();
      await engine.close();
    };
  });

  const holdBack = (awaited: number) => {
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    gate = { awaited, open, opened };
    arrived = 0;
  };
  let asked = 0;
  /** A question that nobody has asked before. */
  const ask = (secret: string) => {
    asked += 1;
    return api.get(`/v1/purchases/stats?min_value_in_cents=${asked}`, secret);
  };

  it('is refused with 429 and Retry-After, and other keys are not', async () => {
    holdBack(7);
    const flood = Array.from({ length: 6 }, () => ask(greedy));
    const other = ask(modest);
    const answers = await Promise.all(flood);
    // One place, and two that wait.
    expect(answers.filter(({ statusCode }) => statusCode === 200)).toHaveLength(3);
    const refused = answers.filter(({ statusCode }) => statusCode !== 200);
    expect(refused).toHaveLength(3);
    for (const response of refused) {
      expect(expectRefusal(response, 'rate_limited').retry_after).toBe(1);
      expect(response.headers['retry-after']).toBe('1');
      expect(response.headers).toHaveProperty('x-ratelimit-remaining');
    }
    expect((await other).statusCode).toBe(200);
  });

  it('is served again once the queue has space', async () => {
    holdBack(1);
    expect((await ask(greedy)).statusCode).toBe(200);
  });
});
