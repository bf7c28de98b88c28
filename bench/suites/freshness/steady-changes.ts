import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { paymentStatuses, purchaseColumns } from '../../../src/domain/purchase.ts';
import type { Database } from '../../../src/postgres/pool.ts';
import { createRandomSource, type RandomSource } from '../../../src/seed/random-source.ts';
import type { Scope } from '../../runner/scope.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

export type SteadyChanges = {
  /** Changes committed so far, each a transaction of its own. */
  made(): number;
};

export type ChangeRate = {
  readonly changesPerSecond: number;
  readonly writers: number;
  /** How many of a hundred changes are to purchases of any age, not to the newest. */
  readonly oldPercent: number;
  readonly seed: number;
};

/** The purchases that an organization was seeded with: never deleted, so never missed. */
type SeededPurchases = {
  readonly organizationId: bigint;
  readonly firstId: bigint;
  readonly count: number;
};

/** Later than this, what was missed is left out: a burst would be another load. */
const longestDelayMs = 1_000;
/** What a shop still works on: of its purchases, the newest so many. */
const newestShare = 0.01;
/** Of ten changes; the others are updates. As many deletes as inserts keep the size. */
const insertsOfTen = 2;
const deletesOfTen = 2;

/**
 * Changes purchases at a steady rate until the scope ends: each writer at times fixed
 * beforehand, whether or not the change before was slow.
 */
export async function startChanges(
  scope: Scope,
  database: Database,
  shops: readonly BenchmarkShop[],
  { changesPerSecond, writers, oldPercent, seed }: ChangeRate,
): Promise<SteadyChanges> {
  const purchases = await Promise.all(
    shops.map(({ organizationId }) => seededPurchases(database, organizationId)),
  );
  let made = 0;
  const intervalMs = (1000 * writers) / changesPerSecond;
  const write = async (writer: number) => {
    const random = createRandomSource(seed, 'steady changes', writer);
    const change = createChange(database, random, oldPercent);
    let dueAt = performance.now() + (intervalMs * writer) / writers;
    while (!scope.signal.aborted) {
      const now = performance.now();
      if (now < dueAt) await sleep(dueAt - now, undefined, { signal: scope.signal });
      made += await change(random.pick(purchases));
      dueAt = Math.max(dueAt + intervalMs, performance.now() - longestDelayMs);
    }
  };
  const writing = Array.from({ length: writers }, (_, writer) => write(writer).catch(scope.fail));
  scope.afterwards(() => Promise.all(writing));
  return { made: () => made };
}

async function seededPurchases(
  database: Database,
  organizationId: bigint,
): Promise<SeededPurchases> {
  const { rows } = await database.query<{ first_id: bigint; count: bigint }>(sql`
    select min(id) as first_id, count(*) as count from purchases
    where organization_id = ${organizationId}`);
  const row = rows[0] as { first_id: bigint; count: bigint };
  return { organizationId, firstId: row.first_id, count: Number(row.count) };
}

const copiedColumns = purchaseColumns
  .map(({ name }) => name)
  .filter((name) => name !== 'id' && name !== 'created_at' && name !== 'updated_at')
  .join(', ');

/** One writer's next change; it deletes, oldest first, only what it has inserted. */
function createChange(database: Database, random: RandomSource, oldPercent: number) {
  const inserted: { readonly organizationId: bigint; readonly id: bigint }[] = [];

  const insert = async ({ organizationId }: SeededPurchases, like: bigint) => {
    const { rows } = await database.query<{ id: bigint }>(sql`
      insert into purchases (organization_id, ${raw(copiedColumns)})
      select organization_id, ${raw(copiedColumns)} from purchases
      where id = ${like} and organization_id = ${organizationId}
      returning id`);
    for (const { id } of rows) inserted.push({ organizationId, id });
    return rows.length;
  };

  const update = async ({ organizationId }: SeededPurchases, id: bigint) => {
    const value = 100 + random.integer(100_000);
    const { rowCount } = await database.query(sql`
      update purchases
      set payment_status = ${random.pick(paymentStatuses)}, purchase_value_in_cents = ${value},
        total_amount_in_cents = ${value}, updated_at = now()
      where id = ${id} and organization_id = ${organizationId}`);
    return rowCount ?? 0;
  };

  const remove = async ({ organizationId, id }: (typeof inserted)[number]) => {
    const { rowCount } = await database.query(
      sql`delete from purchases where id = ${id} and organization_id = ${organizationId}`,
    );
    return rowCount ?? 0;
  };

  /** Seeded in the order of their creation. */
  const pickOne = (count: number): number => {
    if (random.integer(100) < oldPercent) return random.integer(count);
    return count - 1 - random.integer(Math.ceil(count * newestShare));
  };

  return (purchases: SeededPurchases): Promise<number> => {
    const id = purchases.firstId + BigInt(pickOne(purchases.count));
    const kind = random.integer(10);
    if (kind < insertsOfTen) return insert(purchases, id);
    const oldest = kind < insertsOfTen + deletesOfTen ? inserted.shift() : undefined;
    return oldest === undefined ? update(purchases, id) : remove(oldest);
  };
}
