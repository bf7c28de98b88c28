import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import { encodeId } from '../../../src/domain/public-id.ts';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

const requestIntervalMs = 30;
const timeoutMs = 120_000;
/** A random pause, so that markers are independent of the worker's intervals. */
const maxPauseMs = 100;

/**
 * Adds purchases to the organizations in turn and returns the times from the commit of each to the
 * first response that shows it. One at a time: the requests of more would be most of what the API
 * costs.
 */
export async function measureVisibility(
  scope: Scope,
  service: RunningService,
  forMs: number,
): Promise<number[]> {
  const until = performance.now() + forMs;
  const lags: number[] = [];
  for (let turn = 0; performance.now() < until; turn += 1) {
    const shop = service.shops[turn % service.shops.length] as BenchmarkShop;
    lags.push(await addMarker(scope, service, shop));
    await sleep(Math.random() * maxPauseMs, undefined, { signal: scope.signal });
  }
  return lags;
}

async function addMarker(
  { signal }: Scope,
  { database, get }: RunningService,
  shop: BenchmarkShop,
): Promise<number> {
  const { rows } = await database.pool.query<{ id: bigint; insertedAtMs: number }>(sql`
    insert into purchases (organization_id, customer_id, purchase_value_in_cents)
    select organization_id, id, 100 from customers
    where organization_id = ${shop.organizationId} order by created_at limit 1
    returning id, (extract(epoch from now()) * 1000)::float8 as "insertedAtMs"`);
  const [{ id, insertedAtMs }] = rows as [(typeof rows)[number]];
  const path = `/v1/purchases/${encodeId('purchase', id)}`;
  const committedAt = performance.now();
  let shownAsOf = '';
  while (performance.now() - committedAt < timeoutMs) {
    // Cached until the organization changes. Requests for the purchase are not.
    const { asOf } = await get('/v1/purchases/stats', shop);
    if (asOf !== shownAsOf && Date.parse(asOf) > insertedAtMs) {
      shownAsOf = asOf;
      const { status } = await get(path, shop, [200, 404]);
      if (status === 200) return performance.now() - committedAt;
    }
    await sleep(requestIntervalMs, undefined, { signal });
  }
  throw new Error(`a purchase was not visible after ${timeoutMs / 1000} s`);
}
