import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { paymentStatuses, purchaseColumns } from '../../../src/domain/purchase.ts';
import type { Database } from '../../../src/postgres/pool.ts';
import { createRandomSource, type RandomSource } from '../../../src/seed/random-source.ts';
import type { Scope } from '../../runner/scope.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

type ChangeRate = {
  readonly changesPerSecond: number;
  readonly writers: number;
  /** The percentage of changes to purchases of any age. The others are to the newest. */
  readonly oldPercent: number;
  readonly seed: number;
};

/** The seeded purchases of an organization, in the order of their creation. Changes delete none. */
type SeededPurchases = {
  readonly organizationId: bigint;
  readonly firstId: bigint;
  readonly count: number;
};

/** Changes that are later than this are left out: a burst would be another load. */
const maxDelayMs = 1_000;
const newestShare = 0.01;
/** The number of inserts in ten changes. There are as many deletes, and the others are updates. */
const insertsOfTen = 2;
const deletesOfTen = 2;

/**
 * Changes purchases at a steady rate until the scope ends, each change in its own transaction. The
 * time of a change does not depend on the duration of the change before. Returns a counter.
 */
export async function startChanges(
  scope: Scope,
  database: Database,
  shops: readonly BenchmarkShop[],
  { changesPerSecond, writers, oldPercent, seed }: ChangeRate,
): Promise<() => number> {
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
      // Not in one statement, which would read the sum before other writers add to it.
      const changed = await change(random.pick(purchases));
      made += changed;
      dueAt = Math.max(dueAt + intervalMs, performance.now() - maxDelayMs);
    }
  };
  const writing = Array.from({ length: writers }, (_, writer) => write(writer).catch(scope.fail));
  scope.afterwards(() => Promise.all(writing));
  return () => made;
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
function createChange(database: Database, random: RandomSource, oldPercent: number) {
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
    if (random.integer(100) < oldPercent) return random.integer(count);
    return count - 1 - random.integer(Math.ceil(count * newestShare));
  };

  return ({ firstId, count }: SeededPurchases): Promise<number> => {
    const id = firstId + BigInt(pickIndex(count));
    const kind = random.integer(10);
    if (kind < insertsOfTen) return insertLike(id);
    const oldest = kind < insertsOfTen + deletesOfTen ? inserted.shift() : undefined;
    return oldest === undefined ? update(id) : remove(oldest);
  };
}
