import type { Database } from '../../../src/postgres/connection/pool.ts';
import type { Scope } from '../../runner/scope.ts';
import type { BenchmarkDatabase } from '../../setup/postgres.ts';
import { type BenchmarkShop, seedShop } from '../../setup/shops.ts';

type Relation = 'tag' | 'segment';
const linkTables = { tag: 'customer_tags', segment: 'segment_customers' } as const;

/** A tag or a segment with customers. */
export type Group = { readonly relation: Relation; readonly name: string; readonly id: bigint };

export type ListShop = BenchmarkShop & { readonly groups: readonly Group[] };

/**
 * A large organization with data that make lists slow: names in many scripts, tags and segments of
 * all sizes. A smaller organization beside it has rows that no list may read.
 */
export async function createListShop(
  scope: Scope,
  database: BenchmarkDatabase,
  { customers, seed }: { readonly customers: number; readonly seed: number },
): Promise<ListShop> {
  const shop = await seedShop(scope, database, { customers, purchases: customers, seed });
  const fewer = Math.ceil(customers / 4);
  await seedShop(scope, database, { customers: fewer, purchases: fewer, seed: seed + 1 });
  await addNamesInOtherScripts(database.pool, shop.organizationId);
  const groups = await addGroups(database.pool, shop.organizationId, customers);
  await database.pool.query('vacuum analyze');
  return { ...shop, groups };
}

/** Names without trigrams: every twentieth customer, and a few rare ones. */
async function addNamesInOtherScripts(database: Database, organizationId: bigint): Promise<void> {
  await database.query(
    `update customers set name = case
       when id % 5000 = 7 then '山田 日本語'
       when id % 20 = 3 then '株式会社 ' || name
       when id % 5000 = 11 then 'Иван ' || name
       else 'A%B --- ' || name end
     where organization_id = $1 and (id % 5000 in (7, 11, 13) or id % 20 = 3)`,
    [organizationId],
  );
}

/** Groups of several sizes: spread evenly, or at the end of an order. */
async function addGroups(
  database: Database,
  organizationId: bigint,
  customers: number,
): Promise<Group[]> {
  const groups: Group[] = [];
  const add = async (relation: Relation, share: number, describe: string, order: string) => {
    const size = Math.ceil(customers * share);
    const name = describe.replace('%', String(size));
    const { rows } = await database.query<{ id: bigint }>(
      `insert into ${relation}s (organization_id, name) values ($1, $2) returning id`,
      [organizationId, name],
    );
    const { id } = rows[0] as { id: bigint };
    await database.query(
      `insert into ${linkTables[relation]} (organization_id, ${relation}_id, customer_id)
       select $1, $2, id from customers where organization_id = $1 order by ${order} limit $3`,
      [organizationId, id, size],
    );
    groups.push({ relation, name: `${relation}: ${name}`, id });
  };
  for (const relation of ['tag', 'segment'] as const) {
    for (const share of [0.0001, 0.001, 0.01, 0.1, 0.5]) {
      await add(relation, share, '% anywhere', 'id * 7919 % 1000003');
    }
    for (const share of [0.01, 0.1, 0.5]) {
      await add(relation, share, 'the % oldest', 'created_at, id');
    }
    await add(relation, 0.5, '% that spent least', 'total_spent_in_cents, id');
  }
  return groups;
}
