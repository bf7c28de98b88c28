import { pino } from 'pino';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createApp } from '../../src/http/app.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { createPostgresQueryPool } from '../../src/postgres/connection/query-pool.ts';
import { createChangeFeed } from '../../src/purchase-store/feed/change-feed.ts';
import { createTickReader } from '../../src/purchase-store/ticks/published-tick.ts';
import { resources } from '../../src/resources/resources.ts';
import { readSettings } from '../../src/settings/settings.ts';
import type { Scope } from '../runner/scope.ts';
import { authorization, type BenchmarkShop } from './shops.ts';

/** The API in this process, without sockets and caches: resolves with the body of a response. */
export function createInProcessApi(
  scope: Scope,
  database: Database,
  purchases: PurchaseEngine,
): (url: string, shop: BenchmarkShop) => Promise<string> {
  const settings = readSettings({});
  const { dataDirectory } = settings;
  const ticks = createTickReader(dataDirectory);
  const app = createApp({
    ...settings,
    resources,
    keyDatabase: database,
    services: {
      postgres: createPostgresQueryPool(database),
      exportDatabase: database,
      purchases,
      changes: createChangeFeed({ dataDirectory, ticks, onError() {} }),
      writeExport: refuseExport,
      writeTable: refuseExport,
      publicAppUrl: 'http://127.0.0.1:3000/app',
    },
    rateLimitPerMinute: Number.MAX_SAFE_INTEGER,
    responseCacheBytes: 0,
    // Also on a busy machine, no key check fails.
    databaseSilenceMs: 60_000,
    log: pino({ level: 'silent' }),
  });
  scope.afterwards(() => app.close());
  return async (url, shop) => {
    const { statusCode, body } = await app.inject({ url, headers: authorization(shop) });
    if (statusCode !== 200) throw new Error(`GET ${url} returned ${statusCode}: ${body}`);
    return body;
  };
}

function refuseExport(): never {
  throw new Error('benchmarks export from the real API only');
}
