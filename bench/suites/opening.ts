import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { savedDeltaOf } from '../../src/purchase-store/delta/saved-delta.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { inRounds, time, timed, wall } from '../measure/rounds.ts';
import { summaryOf } from '../measure/statistics.ts';
import { spread, tableOf } from '../report/tables.ts';
import { type Scope, withScope } from '../runner/scope.ts';
import { defineSuite } from '../runner/suite.ts';
import { createClient } from '../setup/api-client.ts';
import { scratchDirectory } from '../setup/postgres.ts';
import { type PreparedShops, prepareShops } from '../setup/prepared-shops.ts';
import { startHttpServer, startProgram, startService } from '../setup/programs.ts';
import type { BenchmarkShop } from '../setup/shops.ts';

/** Together, these changes need no compaction. */
const changedShare = 0.018;
/** A tick publishes so many. */
const changesAtOnce = 10_000;
/** Of ten changed purchases, nine are among the newest. */
const newestShare = 0.05;
/** Between two queries of an open organization. */
const changesBetween = 25;

export const opening = defineSuite({
  name: 'opening',
  description:
    'statistics after a start of the API, with and without the saved delta, and after changes',
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 5 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const sizes = [{ organizations: 1, purchases, seed }];
    const prepared = await prepareShops({ scope, server }, sizes);
    const shop = prepared.shops[0] as BenchmarkShop;
    const changes = Math.max(20_000, purchases * changedShare);
    for (let changed = 0; changed < changes; changed += changesAtOnce) {
      await changeSome(prepared, shop, Math.min(changesAtOnce, changes - changed));
      await startProgram(scope, 'sync/main.ts', ['once'], prepared.environment).done();
    }
    const { dataDirectory } = prepared;
    const withoutSaved = await scratchDirectory(scope);
    cpSync(dataDirectory, withoutSaved, { recursive: true });
    removeSavedDelta(withoutSaved, shop);
    const of = (folder: string) => () => firstQueries(scope, prepared, shop, folder);
    const tasks = { with: of(dataDirectory), without: of(withoutSaved) };
    const results = await inRounds(tasks, { rounds, signal: scope.signal });
    const figures = Object.entries(results).map(([savedDelta, times]) => ({
      savedDelta,
      first: summaryOf(times, ({ first }) => first),
      filtered: summaryOf(times, ({ filtered }) => filtered),
    }));
    const open = await measureChanges(scope, prepared, shop, 4 * rounds);
    return {
      text: [
        tableOf(figures, {
          [`${changes.toLocaleString('en')} changes; ms`]: ({ savedDelta }) =>
            `${savedDelta} the saved delta`,
          'first statistics': ({ first }) => spread(first, 0),
          'then those of paid ones': ({ filtered }) => spread(filtered, 0),
        }),
        tableOf([open], {
          'open; ms': () => 'statistics',
          'without changes': ({ unchanged }) => spread(unchanged, 1),
          [`after ${changesBetween} changes`]: ({ changed }) => spread(changed, 1),
        }),
      ],
      figures: { changes, queries: figures, open },
    };
  },
});

async function changeSome(
  { database: { pool } }: PreparedShops,
  { organizationId }: BenchmarkShop,
  count: number,
): Promise<void> {
  await pool.query(
    `with bounds as (
       select min(id) as first, max(id) as last from purchases where organization_id = $1
     )
     update purchases set payment_status = 'refunded', updated_at = now()
     where organization_id = $1 and id in (
       select last - floor((last - first) * random() * case when n % 10 = 0 then 1 else $3::float8 end)::bigint
       from bounds, generate_series(1, $2::int) as n
     )`,
    [organizationId, count, newestShare],
  );
}

function removeSavedDelta(dataDirectory: string, { organizationId }: BenchmarkShop): void {
  const directory = organizationDirectory(dataDirectory, organizationId);
  const current = readCurrent(directory, layoutVersion);
  // Fails if there is none.
  rmSync(join(directory, savedDeltaOf(current?.log ?? '')));
}

/** The milliseconds of the first requests to a new API. */
async function firstQueries(
  scope: Scope,
  { environment }: PreparedShops,
  shop: BenchmarkShop,
  dataDirectory: string,
): Promise<{ readonly first: number; readonly filtered: number }> {
  return withScope(scope.signal, async (ofApi) => {
    const settings = { ...environment, DATA_DIR: dataDirectory };
    const api = await startHttpServer(ofApi, 'src/commands/api.ts', settings);
    const { get } = createClient(ofApi, api.url);
    // The first request at all also opens connections.
    await get('/v1/me', shop);
    const { wall: first } = await time(() => get('/v1/purchases/stats', shop));
    const { wall: filtered } = await time(() => get('/v1/purchases/stats?status=paid', shop));
    return { first, filtered };
  });
}

/** The milliseconds of uncached statistics of an open organization, right after changes and without. */
async function measureChanges(
  scope: Scope,
  prepared: PreparedShops,
  shop: BenchmarkShop,
  rounds: number,
) {
  return withScope(scope.signal, async (running) => {
    const { environment, dataDirectory } = prepared;
    startService(running, 'sync/main.ts', [], environment);
    const api = await startHttpServer(running, 'src/commands/api.ts', environment);
    const { get } = createClient(running, api.url);
    const snapshot = () => readTicks(dataDirectory)[0]?.snapshot;
    let queries = 0;
    const query = () => {
      // No other response is cached for it.
      queries += 1;
      return get(`/v1/purchases/stats?max_value_in_cents=${10 ** 12 + queries}`, shop);
    };
    const unchanged = timed(query);
    const tasks = {
      async changed() {
        const before = snapshot();
        await changeSome(prepared, shop, changesBetween);
        while (snapshot() === before) await sleep(5);
        return unchanged();
      },
      unchanged,
    };
    const times = await inRounds(tasks, { rounds, signal: running.signal });
    return { changed: summaryOf(times.changed, wall), unchanged: summaryOf(times.unchanged, wall) };
  });
}
