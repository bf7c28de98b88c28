import { setTimeout as sleep } from 'node:timers/promises';
import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { inRounds, type Time, timed, wall } from '../../measure/rounds.ts';
import { summarize, summaryOf } from '../../measure/statistics.ts';
import { describeWarnings, spread, tableOf } from '../../report/tables.ts';
import { defineSuite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { measurePauses } from './pauses.ts';

const changesAtOnce = 25;
/** Then the worker has published the changes. */
const publishedMs = 300;
/** The rounds of requests after a pause, which take two seconds each. */
const maxPauses = 11;

export const pages = defineSuite({
  name: 'pages',
  description:
    'pages and single purchases over HTTP, against /v1/me; requests after a pause, against bare routes',
  isQuick: false,
  defaults: { purchases: 1_000_000, organizations: 200, seed: 42, rounds: 61 },
  async run({ options: { purchases, organizations, seed, rounds }, scope, server }) {
    const service = await startRunningService(
      { scope, server },
      [
        { organizations: 1, purchases, seed },
        { organizations, purchases: 1_000, seed },
      ],
      { api: { RESPONSE_CACHE_MIB: '0' } },
    );
    const { pool } = service.database;
    const requests: Requests = await requestsOf(service);
    const options = { rounds, warmUps: 3, signal: scope.signal };
    const unchanged = await inRounds(requests, options);
    const change = timed(() => changeNewest(pool, service.shops[0] as BenchmarkShop));
    const changing: Times = await inRounds({ ...requests, change }, options);
    const figures = Object.keys(requests).map((request) => ({
      request,
      unchanged: differenceOf(unchanged, request),
      changing: differenceOf(changing, request),
      milliseconds: summaryOf(unchanged[request] ?? [], wall),
    }));
    const pauses = await measurePauses(scope, service, Math.min(rounds, maxPauses));
    return {
      text: [
        tableOf(figures, {
          request: ({ request }) => request,
          ms: ({ milliseconds }) => spread(milliseconds),
          'more than /v1/me': ({ unchanged }) => spread(unchanged),
          'the same, 25 changes a round': ({ changing }) => spread(changing),
        }),
        tableOf(pauses, {
          request: ({ request }) => request,
          'back to back, ms': ({ backToBack }) => spread(backToBack),
          'after 2 s': ({ afterPause }) => spread(afterPause),
          'after 2 s of other programs': ({ afterOthers }) => spread(afterOthers),
        }),
        ...describeWarnings(service.warnings()),
      ],
      figures: { pages: figures, pauses },
    };
  },
});

type Requests = Readonly<Record<string, () => Promise<Time>>>;
type Times = Readonly<Record<string, readonly Time[]>>;

const differenceOf = (times: Times, request: string) =>
  summarize(
    (times[request] ?? []).map(
      (time, round) => (time?.wall ?? Number.NaN) - (times['/v1/me']?.[round]?.wall ?? Number.NaN),
    ),
  );

/** Requests of one shop, each for other purchases than before, and of small shops in turn. */
async function requestsOf({ get, shops, database }: RunningService) {
  const [shop, ...small] = shops as [BenchmarkShop, ...BenchmarkShop[]];
  const { rows } = await database.pool.query<{ id: bigint; customer_id: bigint }>(
    `select id, customer_id from purchases where organization_id = $1 and id % 997 = 0
     order by md5(id::text)`,
    [shop.organizationId],
  );
  let turn = 0;
  const next = () => rows[++turn % rows.length] as (typeof rows)[number];
  const ofShop = (path: () => string) => timed(() => get(path(), shop));
  let cursor = '';
  const walk = async () => {
    const { body } = await get(`/v1/purchases${cursor}`, shop);
    cursor = `?starting_after=${JSON.parse(body).data.at(-1).id}`;
  };
  const campaigns = await get('/v1/purchases/stats?group_by=utm_campaign&group_limit=50', shop);
  const names: string[] = JSON.parse(campaigns.body).groups.flatMap(
    ({ key }: { key: string | null }) => key ?? [],
  );
  const month = () => {
    turn += 1;
    const name = `2025-0${1 + (turn % 9)}`;
    return `/v1/purchases?created_since=${name}-01T00:00:00Z&created_until=${name}-28T00:00:00Z`;
  };
  return {
    '/v1/me': ofShop(() => '/v1/me'),
    'one purchase': ofShop(() => `/v1/purchases/${encodeId('purchase', next().id)}`),
    'the first page': ofShop(() => '/v1/purchases'),
    'the next page of a walk': timed(walk),
    'the first page of paid': ofShop(() => '/v1/purchases?status=paid'),
    "one customer's": ofShop(
      () => `/v1/purchases?customer_id=${encodeId('customer', next().customer_id)}`,
    ),
    'of a campaign': ofShop(
      () => `/v1/purchases?utm_campaign=${encodeURIComponent(names[++turn % names.length] ?? '')}`,
    ),
    'of a month': ofShop(month),
    'the first page of a small shop': timed(() =>
      get('/v1/purchases', small[++turn % small.length] as BenchmarkShop),
    ),
  };
}

/** Changes some of the newest purchases, and waits until the changes are published. */
async function changeNewest(database: Database, { organizationId }: BenchmarkShop): Promise<void> {
  await database.query(
    `update purchases set purchase_value_in_cents = purchase_value_in_cents + 1
     where id in (
       select id from purchases where organization_id = $1 order by created_at desc
       limit $2 offset floor(random() * 1000)::int)`,
    [organizationId, changesAtOnce],
  );
  await sleep(publishedMs);
}
