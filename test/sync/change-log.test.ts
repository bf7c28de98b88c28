import { describe, expect } from 'vitest';
import { createPool } from '../../src/postgres/pool.ts';
import { currentSnapshot, readChangeLog } from '../../sync/capture/change-log.ts';
import { test } from '../support/fixtures.ts';
import { addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const unknownToken = '00000000-0000-0000-0000-000000000000';

/** A worker whose connections report the plan of each statement, and the plans. */
const it = test.extend('explained', async ({ database, directory }, { onCleanup }) => {
  const url = new URL(database.url);
  url.searchParams.set(
    'options',
    '-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c client_min_messages=log',
  );
  const plans: string[] = [];
  const pool = createPool(url.href, {
    max: 4,
    applicationName: 'test',
    onConnect: async (connection) => {
      connection.on('notice', ({ message = '' }) => plans.push(message));
    },
  });
  const worker = await createTestWorker(pool, directory);
  onCleanup(async () => {
    await worker.close();
    await pool.end();
  });
  return { worker, pool, plans };
});

const scansOf = (plans: readonly string[]) =>
  plans.filter((plan) => plan.includes('Seq Scan on purchase_changes'));

describe('the change log', () => {
  it('is read by its indexes during and after a large import, although its file stays large', {
    tags: ['slow'],
  }, async ({
    database,
    newShop: { organizationId },
    newCustomerId,
    explained: { worker, pool, plans },
  }) => {
    await database.pool.query(
      `insert into purchase_changes (organization_id, purchase_id, transaction_id)
       select $1, number, pg_current_xact_id() from generate_series(1, 200000) as number`,
      [organizationId],
    );
    const since = await currentSnapshot(database.pool);
    const change = () => addPurchase(database.pool, organizationId, { customer_id: newCustomerId });
    await change();
    const poll = async () => {
      // Postgres uses one plan for all values after five executions of a prepared statement.
      for (let number = 0; number < 8; number += 1) {
        const { organizations } = await readChangeLog(pool, since, [unknownToken]);
        expect(organizations).toEqual([organizationId]);
      }
    };
    await poll();
    expect(plans.length).toBeGreaterThan(7);
    expect(scansOf(plans)).toEqual([]);

    await worker.once([organizationId]);
    await database.pool.query('vacuum analyze purchase_changes');
    const { rows } = await database.pool.query(
      `select count(*) < 10 as is_pruned, pg_relation_size('purchase_changes') > 8000000 as is_large
       from purchase_changes`,
    );
    expect(rows).toEqual([{ is_pruned: true, is_large: true }]);

    await change();
    plans.length = 0;
    await poll();
    await worker.once([organizationId]);
    expect(plans.filter((plan) => plan.includes('purchase_changes')).length).toBeGreaterThan(10);
    expect(scansOf(plans)).toEqual([]);
  });
});
