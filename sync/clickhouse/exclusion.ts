import sql, { raw, type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { table } from '../../src/engines/clickhouse/schema.ts';
import type { ChangedId } from '../verification/published-content.ts';
import { insertRows } from './insert.ts';
import { listOfIds, newLoad } from './names.ts';

/** Changed purchases that a comparison excludes. */
type Exclusion = {
  /** The number of those that Postgres has in the compared range. */
  readonly inPostgres: number;
  /** Conditions on `id`: no changed purchase, and one that Postgres lacks in the range. */
  readonly isUnchanged: Sql;
  readonly isOnlyPublished: Sql;
};

export const emptyExclusion: Exclusion = {
  inPostgres: 0,
  isUnchanged: raw('true'),
  isOnlyPublished: raw('false'),
};

/** Ids that are bound to each query: at most 110 KB. */
const maxBound = 5_000;
const insertedAtOnce = 50_000;
/** Whether Postgres has the purchase stands in the place of its customer. */
const columns = ['organization_id', 'load_id', 'id', 'customer_id'];

/**
 * Excludes purchases. Many of them become rows of a load that is never published, and is dropped like
 * others.
 */
export async function excludePurchases(
  clickhouse: ClickHouse,
  organizationId: bigint,
  changed: AsyncIterable<ChangedId>,
): Promise<Exclusion> {
  const load = newLoad(organizationId);
  let inPostgres = 0;
  let ids: ChangedId[] = [];
  let isInserted = false;
  const insert = async () => {
    const rows = ids.map(([id, is]) => [String(organizationId), load, String(id), is ? 1 : 0]);
    await insertRows(clickhouse, 'purchase', columns, rows);
    isInserted = true;
    ids = [];
  };
  for await (const change of changed) {
    ids.push(change);
    if (change[1]) inPostgres += 1;
    if (ids.length === insertedAtOnce) await insert();
  }
  if (isInserted || ids.length > maxBound) await insert();
  if (!isInserted) {
    const others = ids.flatMap(([id, is]) => (is ? [] : [id]));
    return {
      inPostgres,
      isUnchanged: sql`id not in ${listOfIds(ids.map(([id]) => id))}`,
      isOnlyPublished: sql`id in ${listOfIds(others)}`,
    };
  }
  const inserted = sql`
    select id from ${table.purchase}
    where organization_id = ${organizationId} and load_id = ${load}`;
  return {
    inPostgres,
    isUnchanged: sql`id global not in (${inserted})`,
    isOnlyPublished: sql`id global in (${inserted} and customer_id = 0)`,
  };
}
