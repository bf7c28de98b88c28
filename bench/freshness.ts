import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchmarkShop } from './shop.ts';

const addPurchase = `
  insert into purchases (organization_id, customer_id, purchase_value_in_cents)
  select $1, min(id), 100 from customers where organization_id = $1
  returning id`;

/** Milliseconds from a commit until the DuckDB engine shows it, for `rounds` writes. */
export async function measureFreshness(shop: BenchmarkShop, rounds: number): Promise<number[]> {
  const stop = new AbortController();
  const running = shop.worker.run(stop.signal);
  const delays: number[] = [];
  try {
    for (let round = 0; round < rounds; round += 1) {
      const { rows } = await shop.database.query<{ id: bigint }>(addPurchase, [
        shop.organizationId,
      ]);
      const committedAt = performance.now();
      const id = (rows[0] as { id: bigint }).id;
      while ((await shop.duckdb.get(shop.organizationId, id)).answer === null) await sleep(5);
      delays.push(performance.now() - committedAt);
      await sleep(Math.random() * 500);
    }
  } finally {
    stop.abort();
    await running;
  }
  return delays;
}
