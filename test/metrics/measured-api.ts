import { test } from '../support/fixtures.ts';
import { scraperOf } from '../support/metrics.ts';
import { runProgram } from '../support/program.ts';
import { addKey, addPurchases } from '../support/shop.ts';
import { connectTo } from '../support/sockets.ts';

export const rateLimit = 400;
export const failedKeyLimit = 8;

/** Low limits, so that few requests exceed them. */
const environment = {
  LOG_LEVEL: 'info',
  PORT: '0',
  METRICS_LISTEN: '127.0.0.1:0',
  RATE_LIMIT_PER_MINUTE: String(rateLimit),
  FAILED_KEYS_PER_MINUTE: String(failedKeyLimit),
  DATABASE_POOL_SIZE: '2',
  QUERY_CONCURRENCY: '1',
  QUERY_QUEUE_LIMIT: '4',
  QUERY_QUEUE_LIMIT_PER_KEY: '4',
  EXPORTS_PER_KEY: '1',
  UNREAD_MIB_PER_KEY: '1',
};

/** Tests of the metrics of a running API. */
export const measuredTest = test
  /** A running API with its metrics, which all tests of the file share. Purchases are published. */
  .extend(
    'service',
    { scope: 'file' },
    async ({ database, directory, shop, customerId, worker }, { onCleanup }) => {
      await addPurchases(database.pool, shop.organizationId, customerId, 10);
      await worker.syncAll();
      const stores = { DATABASE_URL: database.url, DATA_DIR: directory };
      const program = runProgram('src/commands/api.ts', [], { ...environment, ...stores });
      let close = () => {};
      onCleanup(async () => {
        close();
        await program.end('SIGKILL');
      });
      const [, port] = await program.printed(/Listening on http:\/\/127\.0\.0\.1:(\d+)/);
      const client = await connectTo(Number(port));
      close = client.close;
      return { program, client, ...(await scraperOf(program)) };
    },
  )
  /** GET with the key of a new shop. */
  .extend('send', async ({ service, database, shop }) => {
    const { secret } = await addKey(database.pool, shop.organizationId);
    return (url: string, headers: Record<string, string> = {}) =>
      service.client.send({
        method: 'GET',
        url,
        headers: { authorization: `Bearer ${secret}`, ...headers },
      });
  });

let distinct = 0;
/** A query that no cache holds. */
export const uncached = () => `/v1/purchases/stats?group_by=day&min_value_in_cents=${++distinct}`;
