import { describe, expect } from 'vitest';
import { createPool, withConnection, withSnapshot } from '../../src/postgres/connection/pool.ts';
import { applyMapping } from '../../src/postgres/mapping/apply.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { pollChangeLog } from '../../sync/capture/change-log.ts';
import { confirmSnapshot } from '../../sync/capture/history-token.ts';
import { takeSnapshot } from '../../sync/capture/snapshot.ts';
import { createMapper } from '../../sync/mapping/mapper.ts';
import { log, tables } from '../mapping/small-shop.ts';
import { test } from '../support/fixtures.ts';
import { startPostgresServer } from '../support/postgres-server.ts';
import { addOrganization } from '../support/shop.ts';

const changes = 50_000;
const rounds = 500;

/** A mapped shop in a server of its own: open transactions keep other tests from pruning. */
const itMapped = test.extend('server', async ({ directory }, { onCleanup }) => {
  const server = await startPostgresServer(directory, { synchronous_commit: 'off' });
  onCleanup(() => server.remove());
  await addOrganization(server.pool);
  await server.pool.query(tables);
  await applyMapping(server.pool, await readMapping(server.pool), {
    acceptDeletions: false,
    onProgress() {},
    signal: new AbortController().signal,
  });
  return server;
});

/** The pages that the statements of `work` read, on a connection that reports each plan. */
const it = itMapped.extend('explained', async ({ server }, { onCleanup }) => {
  const url = new URL(server.url);
  url.searchParams.set(
    'options',
    '-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 ' +
      '-c auto_explain.log_analyze=on -c auto_explain.log_buffers=on -c client_min_messages=log',
  );
  const pool = createPool(url.href, { max: 1, applicationName: 'test' });
  let pages = 0;
  pool.on('connect', (connection) => {
    connection.on('notice', ({ message = '' }) => {
      // The first node is the whole statement.
      const [, hit, read] = /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/.exec(message) ?? [];
      pages += Number(hit ?? 0) + Number(read ?? 0);
    });
  });
  onCleanup(() => pool.end());
  const pagesOf = async (work: () => Promise<unknown>): Promise<number> => {
    pages = 0;
    await work();
    return pages;
  };
  return { pool, pagesOf };
});

/** As many changes, and as many rounds of a mapping, leave. */
const leaveEntries = [
  `insert into mapping_changes (view, key)
   select 'mapped_purchases', i::text from generate_series(1, ${changes}) as i`,
  `insert into purchase_changes (organization_id, purchase_id, transaction_id)
   select 1, i, pg_current_xact_id() from generate_series(1, ${changes}) as i`,
  `do $$ begin
     for i in 1..${rounds} loop
       update mapping_state set as_of = clock_timestamp(), emptied_at = pg_current_snapshot();
       commit;
     end loop;
   end $$`,
];

describe('while a transaction stays open', { tags: ['slow'] }, () => {
  it.for([
    ['that has a snapshot', 'begin isolation level repeatable read; select 1'],
    ['that writes', 'begin; select pg_current_xact_id()'],
  ])(
    '%s, polls read no more pages after many changes',
    async ([, begin = ''], { server: { pool }, explained }) => {
      const mapper = createMapper({ database: explained.pool, pollIntervalMs: 10, log });
      const readPages = async () => {
        const since = await confirmSnapshot(pool, await withSnapshot(pool, takeSnapshot));
        const poll = () => pollChangeLog(explained.pool, since, everyOrganization, false);
        return {
          ofMapping: await explained.pagesOf(() => mapper.once()),
          ofChangeLog: await explained.pagesOf(poll),
        };
      };
      await withConnection(pool, async (open) => {
        await open.query(begin);
        await readPages();
        const before = await readPages();
        for (const statement of leaveEntries) {
          await pool.query(statement);
          await mapper.once();
        }
        const after = await readPages();
        expect(after.ofMapping).toBeLessThan(before.ofMapping + 50);
        expect(after.ofChangeLog).toBeLessThan(before.ofChangeLog + 50);
        await open.query('rollback');
      });
    },
  );
});
