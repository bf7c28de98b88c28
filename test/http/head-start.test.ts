import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { revokeApiKey } from '../../src/postgres/api-keys.ts';
import { createPool, type Database, withConnection } from '../../src/postgres/pool.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { expectRefusal } from './refusal.ts';

const requestsPerMinute = 4;

describe('a question of a key that was let pass before', () => {
  let database: TestDatabase;
  let folder: Awaited<ReturnType<typeof temporaryDirectory>>;
  let pool: Database;
  let engine: PurchaseEngine;
  let api: TestApi;
  let organization: bigint;
  let empty: bigint;
  let key: Awaited<ReturnType<typeof addKey>>;
  /** Questions that have reached DuckDB, that it has answered, and that were given up. */
  let asked: number;
  let answered: number;
  let givenUp: number;
  /** Whether DuckDB answers nothing. */
  let isStuck: boolean;

  beforeAll(async () => {
    database = await createTestDatabase();
    folder = await temporaryDirectory();
    organization = await addOrganization(database.pool);
    empty = await addOrganization(database.pool);
    await addPurchase(database.pool, organization, {
      customer_id: await addCustomer(database.pool, organization),
    });
    const worker = await createTestWorker(database.pool, folder.path);
    await worker.syncAll();
    await worker.close();
    engine = await createTestDuckDBEngine(folder.path);
    const counted: PurchaseEngine = {
      ...engine,
      forSource: () => counted,
      stats: async (...question) => {
        asked += 1;
        if (isStuck) await untilGivenUp(question[2] as AbortSignal);
        return engine.stats(...question).finally(() => {
          answered += 1;
        });
      },
    };
    pool = createPool(database.url, { max: 4, applicationName: 'head start' });
    api = await createTestApi(database.pool, folder.path, {
      services: testServices(pool, counted),
      rateLimitPerMinute: requestsPerMinute,
    });
  });
  afterAll(async () => {
    await api.close();
    await pool.end();
    await engine.close();
    await database.drop();
    await folder.remove();
  });
  beforeEach(async () => {
    key = await addKey(database.pool, organization);
    asked = 0;
    answered = 0;
    givenUp = 0;
    isStuck = false;
  });

  const untilGivenUp = (signal: AbortSignal) =>
    new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        givenUp += 1;
        reject(signal.reason);
      });
    });

  let questions = 0;
  /** Something that nobody has asked before. */
  const ask = (parameters = '') => {
    questions += 1;
    const url = `/v1/purchases/stats?min_value_in_cents=${questions}${parameters}`;
    return api.get(url, key.secret);
  };
  /** Lets no key be checked until `work` is done. */
  const whileKeysWait = (work: () => Promise<void>) =>
    withConnection(database.pool, async (connection) => {
      await connection.query('begin; lock table organizations in access exclusive mode');
      await work().finally(() => connection.query('rollback'));
    });
  const untilKeyWaits = async () => {
    const waiting = `select from pg_stat_activity
      where application_name = 'head start' and wait_event_type = 'Lock'`;
    while ((await database.pool.query(waiting)).rowCount === 0) await sleep(5);
  };

  it('is put to DuckDB while Postgres is asked about the key, and answered after that', async () => {
    expect((await ask()).statusCode).toBe(200);
    let answer: ReturnType<typeof ask> | undefined;
    let isAnswered = false;
    await whileKeysWait(async () => {
      answer = ask();
      void answer.then(() => {
        isAnswered = true;
      });
      while (answered < 2) await sleep(5);
      await untilKeyWaits();
      await sleep(50);
      expect(isAnswered).toBe(false);
    });
    expect((await answer)?.statusCode).toBe(200);
    expect(asked).toBe(2);
  });

  it('waits for the check where the key is new, or asks how fresh the answer must be', async () => {
    const minimum = { 'x-min-data-as-of': '2020-01-01T00:00:00Z' };
    for (const headers of [{}, minimum]) {
      let answer: ReturnType<typeof api.get> | undefined;
      const before = asked;
      await whileKeysWait(async () => {
        questions += 1;
        const url = `/v1/purchases/stats?min_value_in_cents=${questions}`;
        answer = api.get(url, key.secret, headers);
        await untilKeyWaits();
        expect(asked).toBe(before);
      });
      expect((await answer)?.statusCode).toBe(200);
      expect(asked).toBe(before + 1);
    }
  });

  it('is refused as any other once the key is revoked, given up, and then no longer begun', async () => {
    await ask();
    isStuck = true;
    await revokeApiKey(database.pool, key.id);
    const many = await Promise.all([ask(), ask(), ask()]);
    for (const refused of many) expectRefusal(refused, 'authentication_error');
    const begun = asked;
    while (givenUp < begun - 1) await sleep(5);
    expectRefusal(await ask(), 'authentication_error');
    expect(asked).toBe(begun);
  });

  it('is refused as any other beyond the limit, and then no longer begun', async () => {
    for (let request = 0; request < requestsPerMinute; request += 1) await ask();
    expectRefusal(await ask(), 'rate_limited');
    const begun = asked;
    expectRefusal(await ask(), 'rate_limited');
    expect(asked).toBe(begun);
  });

  it('is given up where Postgres cannot tell, and then no longer begun', async () => {
    await ask();
    isStuck = true;
    await database.pool.query('alter table organizations rename to elsewhere');
    try {
      expectRefusal(await ask(), 'internal_error');
      const begun = asked;
      while (givenUp < begun - 1) await sleep(5);
      expectRefusal(await ask(), 'internal_error');
      expect(asked).toBe(begun);
    } finally {
      await database.pool.query('alter table elsewhere rename to organizations');
    }
    isStuck = false;
    expect((await ask()).statusCode).toBe(200);
  });

  it('is answered for whom the key belongs to now', async () => {
    expect((await ask()).json().purchase_count).toBe(1);
    const give = 'update api_keys set organization_id = $1 where id = $2';
    await database.pool.query(give, [empty, key.id]);
    expect((await ask()).json().purchase_count).toBe(0);
  });

  it('is refused for the same reasons', async () => {
    await ask();
    expectRefusal(await ask('&group_by=nothing'), 'validation_error', 'group_by');
    await database.pool.query(`update api_keys set scopes = '{write}' where id = $1`, [key.id]);
    expectRefusal(await ask(), 'permission_denied');
  });
});
