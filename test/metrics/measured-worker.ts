import { test } from '../support/fixtures.ts';
import { scraperOf } from '../support/metrics.ts';
import { runProgram } from '../support/program.ts';
import { addPurchases } from '../support/shop.ts';

/** Tests of the metrics of a running worker. */
export const measuredTest = test
  /** A running worker with its metrics, which all tests of the file share. */
  .extend(
    'service',
    { scope: 'file' },
    async ({ database, directory, shop, customerId }, { onCleanup }) => {
      // Allows a purchase that cannot be copied.
      await database.pool.query('alter domain instant drop constraint instant_check');
      await addPurchases(database.pool, shop.organizationId, customerId, 50);
      const program = runProgram('sync/main.ts', ['run'], {
        DATABASE_URL: database.url,
        DATA_DIR: directory,
        SYNC_METRICS_LISTEN: '127.0.0.1:0',
        VERIFY_EVERY: '2s',
      });
      onCleanup(async () => {
        await program.end('SIGKILL');
      });
      return scraperOf(program);
    },
  );
