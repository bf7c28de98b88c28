import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { readUsage } from '../../bench/measure/process-usage.ts';
import { maxLogBytes, maxTickBytes } from '../../sync/tick/byte-limits.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import type { Program } from '../support/program.ts';
import { publishedFiles } from '../support/published-files.ts';
import { addKey } from '../support/shop.ts';
import { checkedFetch } from '../support/sockets.ts';

const purchases = 6_000;
const limits = { DUCKDB_MEMORY_LIMIT: '512MiB' };
/** Of Node and buffers, and of DuckDB. */
const maxBytes = 1_000_000_000;

const it = test
  .extend('addPurchases', ({ database: { pool }, organizationId }) => async (count: number) => {
    await pool.query('insert into customers (organization_id) values ($1)', [organizationId]);
    await pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
       select organization_id, id, n, 'google' from customers, generate_series(1, $1::int) as n`,
      [count],
    );
  })
  /** Gives purchases coupons of 60 KB, a few in each transaction. */
  .extend('addCoupons', ({ database: { pool } }) => async (first: number, last: number) => {
    for (let id = first; id <= last; id += 10) {
      await pool.query(
        `update purchases set coupons = jsonb_build_array(jsonb_build_object('code', (
           select string_agg(md5(random()::text || n || id), '') from generate_series(1, 1800) as n
         ))) where purchase_value_in_cents between $1 and $2`,
        [id, id + 9],
      );
    }
  })
  .extend('requireBounded', ({ folder }) => (processes: readonly Program[]) => {
    for (const { child } of processes) {
      expect(readUsage(child.pid ?? 0)?.peakResidentBytes).toBeLessThan(maxBytes);
    }
    for (const name of readdirSync(folder)) {
      if (!name.startsWith('log-')) continue;
      const bytes = statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
      expect(bytes).toBeLessThan(maxLogBytes + maxTickBytes);
    }
  });

describe.skipIf(process.platform !== 'linux')(
  'purchases with much text',
  { tags: ['slow'] },
  () => {
    it('are compacted by their bytes, within the memory of worker and API', async ({
      database,
      organizationId,
      addPurchases,
      addCoupons,
      requireBounded,
      folder,
      program,
      untilPublished,
      expectEqual,
    }) => {
      await addPurchases(purchases);
      const worker = program('sync/main.ts', [], limits);
      await untilPublished(purchases);
      const { secret } = await addKey(database.pool, organizationId);
      const api = program('src/commands/api.ts', [], limits);
      const [, url = ''] = await api.printed(/Listening on (http[^\s"]+)/);
      const query = async () => {
        const headers = { authorization: `Bearer ${secret}` };
        return (await checkedFetch(`${url}/v1/purchases/stats`, { headers })).json();
      };
      const { base } = publishedFiles(folder) ?? {};
      for (let first = 1; first < purchases / 2; first += 100) {
        await addCoupons(first, first + 99);
        expect(await query()).toMatchObject({ purchase_count: purchases });
        requireBounded([worker, api]);
      }
      while (publishedFiles(folder)?.base === base) await sleep(20);
      expect(worker.output()).toContain('"compacting"');
      await expectEqual();
      requireBounded([worker, api]);
    });

    it('are loaded if their changes are more than a merge can hold', async ({
      addPurchases,
      addCoupons,
      requireBounded,
      program,
      untilPublished,
      expectEqual,
    }) => {
      await addPurchases(purchases);
      const first = program('sync/main.ts', [], limits);
      await untilPublished(purchases);
      await first.end('SIGTERM');
      await addCoupons(1, purchases / 2);
      const second = program('sync/main.ts', [], limits);
      await second.printed(/"too many changes to merge".*"rebuilding".*"built"/s);
      await expectEqual();
      requireBounded([second]);
    });

    it('are read by a first load with a base, although they are few', async ({
      addPurchases,
      addCoupons,
      folder,
      program,
      untilPublished,
      expectEqual,
    }) => {
      await addPurchases(500);
      await addCoupons(1, 500);
      program('sync/main.ts', [], limits);
      await untilPublished(500);
      expect(publishedFiles(folder)?.base).not.toBeNull();
      await expectEqual();
    });
  },
);
