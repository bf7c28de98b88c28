import sql, { raw } from 'sql-template-tag';
import { paymentStatuses, purchaseColumns } from '../../src/domain/purchase.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { createRandomSource, type RandomSource } from '../../src/seed/random-source.ts';
import type { Scope } from '../runner/scope.ts';
import type { BenchmarkShop } from './shops.ts';
import { workAtSteadyRate } from './steady-rate.ts';

/** Of ten changes; the others are updates. */
type Mix = { readonly inserts: number; readonly deletes: number };

type ChangeRate = { readonly changesPerSecond: number; readonly seed: number; readonly mix?: Mix };

/** The seeded purchases of an organization, in the order of their creation. Changes delete none. */
type SeededPurchases = {
  readonly organizationId: bigint;
  readonly firstId: bigint;
  readonly count: number;
};

/** Connections that write. */
const writers = 4;
/** The share of changes to purchases of any age. The others are to the newest. */
const oldShare = 0.1;
const newestShare = 0.01;
const mixed: Mix = { inserts: 2, deletes: 2 };
/** A shop deletes no purchase. */
export const ofAShop: Mix = { inserts: 5, deletes: 0 };

/**
 * Changes purchases at a steady rate until the scope ends, each change in its own transaction.
 * Returns a counter.
 */
export async function startChanges(
  scope: Scope,
  database: Database,
  shops: readonly BenchmarkShop[],
  { changesPerSecond, seed, mix = mixed }: ChangeRate,
): Promise<() => number> {
  const purchases = await Promise.all(
    shops.map(({ organizationId }) => seededPurchases(database, organizationId)),
  );
  const changes = Array.from({ length: writers }, (_, writer) => {
    const random = createRandomSource(seed, 'steady changes', writer);
    const change = createChange(database, random, mix);
    return () => change(random.pick(purchases));
  });
  const rate = { workers: writers, intervalMs: (1000 * writers) / changesPerSecond };
  return workAtSteadyRate(scope, rate, async (writer) => (await changes[writer]?.()) ?? 0);
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

const copiedColumns = raw(
  purchaseColumns
    .map(({ name }) => name)
    .filter((name) => name !== 'id' && name !== 'created_at' && name !== 'updated_at')
    .join(', '),
);

/** Returns a writer's function that makes its next change and returns the number of changed rows. */
function createChange(database: Database, random: RandomSource, { inserts, deletes }: Mix) {
  const inserted: bigint[] = [];

  const insertLike = async (id: bigint) => {
    const { rows } = await database.query<{ id: bigint }>(sql`
      insert into purchases (organization_id, ${copiedColumns})
      select organization_id, ${copiedColumns} from purchases where id = ${id}
      returning id`);
    inserted.push(...rows.map((row) => row.id));
    return rows.length;
  };

  const update = async (id: bigint) => {
    const value = 100 + random.integer(100_000);
    const { rowCount } = await database.query(sql`
      update purchases
      set payment_status = ${random.pick(paymentStatuses)}, purchase_value_in_cents = ${value},
        total_amount_in_cents = ${value}, updated_at = now()
      where id = ${id}`);
    return rowCount ?? 0;
  };

  const remove = async (id: bigint) => {
    const { rowCount } = await database.query(sql`delete from purchases where id = ${id}`);
    return rowCount ?? 0;
  };

  const pickIndex = (count: number): number => {
    if (random.integer(100) < 100 * oldShare) return random.integer(count);
    return count - 1 - random.integer(Math.ceil(count * newestShare));
  };

  return ({ firstId, count }: SeededPurchases): Promise<number> => {
    const id = firstId + BigInt(pickIndex(count));
    const kind = random.integer(10);
    if (kind < inserts) return insertLike(id);
    const oldest = kind < inserts + deletes ? inserted.shift() : undefined;
    return oldest === undefined ? update(id) : remove(oldest);
  };
}
