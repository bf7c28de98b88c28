import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import { Registry } from 'prom-client';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createFallbackEngine } from '../../src/engines/fallback-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { AppOptions } from '../../src/http/app.ts';
import { createApiMetrics } from '../../src/metrics/api.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { createTickReader } from '../../src/purchase-store/ticks/published-tick.ts';
import { createTestChangeFeed, createTestDuckDBEngine } from './engines.ts';
import { createRecordedLog, recordMetrics } from './logged-lines.ts';
import { createCheckedApp } from './openapi.ts';
import { testServices } from './services.ts';

export type TestApi = {
  readonly app: FastifyInstance;
  readonly purchases: PurchaseEngine;
  /** Sends GET without a socket, with `app.inject`. */
  get(
    url: string,
    secret?: string,
    headers?: Record<string, string>,
  ): Promise<LightMyRequestResponse>;
  close(): Promise<void>;
};

/** The API over a test's database and data folder, as the server wires it. */
export async function createTestApi(
  database: Database,
  dataDirectory: string,
  options: Partial<AppOptions> = {},
): Promise<TestApi> {
  const ticks = createTickReader(dataDirectory);
  const duckdb = await createTestDuckDBEngine(dataDirectory, { ticks });
  const oldestServed = () => duckdb.current().organizations.state().oldest;
  const pool = { database, waiting: () => 0 };
  const pools = { keys: pool, lists: pool, purchases: pool };
  const registry = new Registry();
  const postgres = createPostgresEngine(database);
  const state = { duckdb, clickhouse: null, postgres, oldestServed, pools };
  const metrics = createApiMetrics(registry, state);
  const purchases = createFallbackEngine(duckdb, postgres, metrics.onFallback);
  const changes = createTestChangeFeed(dataDirectory, undefined, ticks);
  const app = createCheckedApp({
    services: testServices(database, purchases, changes),
    rateLimitPerMinute: 1_000_000,
    failedKeysPerMinute: 1_000_000,
    log: createRecordedLog(),
    oldestTickAsOf: () => oldestServed()?.tickAsOf ?? null,
    observer: metrics.observer,
    ...options,
  });
  return {
    app,
    purchases,
    get: (url, secret, headers = {}) =>
      app.inject({
        method: 'GET',
        url,
        headers: {
          ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
          ...headers,
        },
      }),
    close: async () => {
      await app.close();
      await recordMetrics(registry);
      changes.close();
      await purchases.close();
    },
  };
}
