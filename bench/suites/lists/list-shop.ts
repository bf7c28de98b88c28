import type { Database } from '../../../src/postgres/pool.ts';
import type { Scope } from '../../runner/scope.ts';
import type { BenchmarkDatabase } from '../../setup/postgres.ts';
import { seedShops } from '../../setup/shops.ts';

export type Relation = 'tag' | 'segment';
const linkTables = { tag: 'customer_tags', segment: 'segment_customers' } as const;

/** A tag or a segment, and by which customers it is carried. */
export type Group = { readonly relation: Relation; readonly name: string; readonly id: bigint };

export type ListShop = {
  readonly organizationId: bigint;
  readonly secret: string;
  readonly groups: readonly Group[];
};

/**
 * A large organization of demo data with what makes lists slow: names in all scripts,
 * tags and segments of all sizes. Beside it a smaller one, whose rows no list may read.
 */
export async function createListShop(
  scope: Scope,
  database: BenchmarkDatabase,
  { customers, seed }: { readonly customers: number; readonly seed: number },
): Promise<ListShop> {
  const sizes = (count: number) => ({ organizations: 1, customers: count, purchases: count });
  const [shop] = await seedShops(scope, database, { ...sizes(customers), seed });
  if (shop === undefined) throw new Error('nothing was seeded');
  await seedShops(scope, database, { ...sizes(Math.ceil(customers / 4)), seed: seed + 1 });
  await addNamesInOtherScripts(database.pool, shop.organizationId);
  const groups = await addGroups(database.pool, shop.organizationId, customers);
  await database.pool.query('vacuum analyze');
  return { ...shop, groups };
}

/** A few customers, and every twentieth, with names that trigrams may know nothing of. */
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

/** Of several sizes, spread evenly; and those that lie where a list's order comes to last. */
async function addGroups(
  database: Database,
  organizationId: bigint,
  customers: number,
): Promise<Group[]> {
  const groups: Group[] = [];
  const add = async (relation: Relation, name: string, members: string, most: number) => {
    const { rows } = await database.query<{ id: bigint }>(
      `insert into ${relation}s (organization_id, name) values ($1, $2) returning id`,
      [organizationId, name],
    );
    const { id } = rows[0] as { id: bigint };
    await database.query(
      `insert into ${linkTables[relation]} (organization_id, ${relation}_id, customer_id)
       select $1, $2, id from customers where organization_id = $1 ${members} limit $3`,
      [organizationId, id, most],
    );
    groups.push({ relation, name: `${relation}: ${name}`, id });
  };
  const spread = `order by id * 7919 % 1000003`;
  for (const relation of ['tag', 'segment'] as const) {
    for (const share of [0.0001, 0.001, 0.01, 0.1, 0.5]) {
      const size = Math.ceil(customers * share);
      await add(relation, `${size} anywhere`, spread, size);
    }
    for (const share of [0.01, 0.1, 0.5]) {
      const size = Math.ceil(customers * share);
      await add(relation, `the ${size} oldest`, 'order by created_at, id', size);
    }
    const half = Math.ceil(customers / 2);
    await add(relation, `${half} that spent least`, 'order by total_spent_in_cents, id', half);
  }
  return groups;
}
