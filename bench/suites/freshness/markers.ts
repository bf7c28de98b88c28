import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/pool.ts';
import { median } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

/** A purchase that was added to see when it is there. */
export type Marker = {
  readonly organizationId: string;
  /** From when its writer was told of the commit to the first answer that shows it; null: given up. */
  readonly lagMs: number | null;
  /** What one look over HTTP took. */
  readonly lookMs: number;
};

/** Two wait for theirs at a time: more would measure what asking costs. */
const watchers = 2;
const lookIntervalMs = 15;
const longestWaitMs = 120_000;
/** Spreads the markers over the worker's rhythm. */
const longestPauseMs = 100;

/** Adds purchases to the organizations in turn and waits for each to be visible. */
export async function measureVisibility(
  scope: Scope,
  service: RunningService,
  forMs: number,
): Promise<Marker[]> {
  const until = performance.now() + forMs;
  const markers: Marker[] = [];
  const watch = async (watcher: number) => {
    for (let turn = watcher; performance.now() < until; turn += watchers) {
      const shop = service.shops[turn % service.shops.length] as BenchmarkShop;
      markers.push(await watchMarker(scope, service, shop));
      await sleep(Math.random() * longestPauseMs, undefined, { signal: scope.signal });
    }
  };
  await Promise.all(Array.from({ length: watchers }, (_, watcher) => watch(watcher)));
  return markers;
}

async function watchMarker(
  scope: Scope,
  service: RunningService,
  shop: BenchmarkShop,
): Promise<Marker> {
  const id = await addPurchase(service.database.pool, shop.organizationId);
  const path = `/v1/purchases/${encodeId('purchase', id)}`;
  const committedAt = performance.now();
  const looks: number[] = [];
  const marker = (lagMs: number | null) => ({
    organizationId: encodeId('organization', shop.organizationId),
    lagMs,
    lookMs: median(looks),
  });
  while (performance.now() - committedAt < longestWaitMs) {
    const askedAt = performance.now();
    const answer = await service.get(path, shop);
    await answer.arrayBuffer();
    const answeredAt = performance.now();
    looks.push(answeredAt - askedAt);
    if (answer.status === 200) return marker(answeredAt - committedAt);
    if (answer.status !== 404) throw new Error(`GET ${path} was answered ${answer.status}`);
    await sleep(lookIntervalMs, undefined, { signal: scope.signal });
  }
  return marker(null);
}

async function addPurchase(database: Database, organizationId: bigint): Promise<bigint> {
  const { rows } = await database.query<{ id: bigint }>(sql`
    insert into purchases (organization_id, customer_id, purchase_value_in_cents)
    select organization_id, id, 100 from customers
    where organization_id = ${organizationId} order by created_at limit 1
    returning id`);
  return (rows[0] as { id: bigint }).id;
}
