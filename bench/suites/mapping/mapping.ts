import { setTimeout as sleep } from 'node:timers/promises';
import { createApiKey } from '../../../src/postgres/keys/api-keys.ts';
import { applyMapping } from '../../../src/postgres/mapping/apply.ts';
import { readMapping } from '../../../src/postgres/mapping/mapping-definition.ts';
import { createOrganization } from '../../../src/postgres/organizations.ts';
import { migrate } from '../../../src/postgres/schema/migrate.ts';
import { time } from '../../measure/rounds.ts';
import { quantile } from '../../measure/statistics.ts';
import { decimal, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { defineSuite } from '../../runner/suite.ts';
import { createClient } from '../../setup/api-client.ts';
import { type BenchmarkDatabase, createDatabase, scratchDirectory } from '../../setup/postgres.ts';
import { startHttpServer, startProgram, startService } from '../../setup/programs.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { workAtSteadyRate } from '../../setup/steady-rate.ts';
import { ownRows, ownTables, ownViews } from './own-tables.ts';

const markerIntervalMs = 50;

export const mapping = defineSuite({
  name: 'mapping',
  description: "the first copy of a shop's own tables, and how soon their changes are visible",
  isQuick: false,
  defaults: { purchases: 1_000_000, changesPerSecond: 100, seconds: 30 },
  async run({ options: { purchases, changesPerSecond, seconds }, scope, server }) {
    const database = await createDatabase({ scope, server });
    const { pool } = database;
    await migrate(database.url);
    const organizationId = await createOrganization(pool, 'Shop');
    const { secret } = await createApiKey(pool, {
      organizationId,
      name: 'bench',
      scopes: ['read'],
      expiresAt: null,
    });
    await pool.query(`${ownTables('store', true)} ${ownViews} ${ownRows('store', purchases)}`);
    // With deletions, of which there are none, it compares the rows itself.
    const apply = async (acceptDeletions: boolean) =>
      time(async () => {
        await applyMapping(pool, await readMapping(pool), {
          acceptDeletions,
          onProgress: () => {},
          signal: scope.signal,
        });
      });
    const rows = purchases + Math.ceil(purchases / 10);
    const copy = (await apply(false)).wall;
    await pool.query('vacuum analyze');
    const comparison = (await apply(true)).wall;
    const lags = await measureVisibility(
      scope,
      database,
      { organizationId, secret },
      {
        changesPerSecond,
        seconds,
      },
    );
    const copies = [
      { name: 'the first copy', ms: copy },
      { name: 'a comparison of equal rows', ms: comparison },
    ].map(({ name, ms }) => ({ name, seconds: ms / 1000, rowsPerSecond: rows / (ms / 1000) }));
    const visible = { median: quantile(lags, 0.5), p99: quantile(lags, 0.99), count: lags.length };
    return {
      text: [
        tableOf(copies, {
          [`${rows.toLocaleString('en')} rows, partitioned by month`]: ({ name }) => name,
          seconds: ({ seconds }) => decimal(seconds),
          'rows per second': ({ rowsPerSecond }) => Math.round(rowsPerSecond).toLocaleString('en'),
        }),
        `From the commit of an order to a response that shows it, with ${changesPerSecond} changes a second: ` +
          `median ${decimal(visible.median, 0)} ms, 99 % ${decimal(visible.p99, 0)} ms (${visible.count} orders).`,
      ],
      figures: { copies, visible },
    };
  },
});

/** The times from the commit of new orders to the first response that shows them, while others change. */
async function measureVisibility(
  scope: Scope,
  { url, pool }: BenchmarkDatabase,
  shop: BenchmarkShop,
  { changesPerSecond, seconds }: { changesPerSecond: number; seconds: number },
): Promise<number[]> {
  const environment = {
    databaseUrl: url,
    DATA_DIR: await scratchDirectory(scope),
    LOG_LEVEL: 'warn',
  };
  await startProgram(scope, 'sync/main.ts', ['once'], environment).done();
  startService(scope, 'sync/main.ts', [], environment);
  const api = await startHttpServer(scope, 'src/commands/api.ts', environment);
  const client = createClient(scope, api.url);
  const { rows } = await pool.query<{ last: bigint }>('select max(id) as last from store.orders');
  const last = Number(rows[0]?.last);
  const writers = 4;
  const rate = { workers: writers, intervalMs: (1000 * writers) / changesPerSecond };
  workAtSteadyRate(scope, rate, async () => {
    await pool.query('update store.orders set total = total + 0.01 where id = $1', [
      1 + Math.floor(Math.random() * last),
    ]);
    return 1;
  });
  await sleep(3_000);
  const lags: number[] = [];
  const until = performance.now() + seconds * 1000;
  for (let id = last + 1; performance.now() < until; id += 1) {
    const cents = id - last;
    await pool.query(
      `insert into store.orders (id, total, placed_at)
       values ($1, $2::numeric / 100, '2025-12-15Z'::timestamptz + $2::int * interval '1 s')`,
      [id, cents],
    );
    const committedAt = performance.now();
    while ((await newestValue(client, shop)) !== cents) await sleep(5);
    lags.push(performance.now() - committedAt);
    await sleep(Math.random() * 2 * markerIntervalMs);
  }
  return lags;
}

/** The value of the newest order, in cents. A page takes less time than statistics. */
async function newestValue(
  client: ReturnType<typeof createClient>,
  shop: BenchmarkShop,
): Promise<number | undefined> {
  const { body } = await client.get(
    '/v1/purchases?limit=1&created_since=2025-12-15T00:00:00Z',
    shop,
  );
  return JSON.parse(body).data[0]?.purchase_value_in_cents;
}
