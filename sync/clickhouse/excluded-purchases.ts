import sql, { type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { listOfIds } from '../../src/engines/clickhouse/relations.ts';
import { table } from '../../src/engines/clickhouse/schema.ts';
import { newLoad } from './identifiers.ts';
import { insertRows } from './insert.ts';

/** Ids that are bound to each query: at most 110 KB. */
const maxBound = 5_000;
const insertedAtOnce = 50_000;
const columns = ['organization_id', 'load_id', 'id'];

/**
 * A condition on `id`: none of these purchases. Many of them become rows of a load that is never
 * published, and is dropped like others.
 */
export async function excludePurchases(
  clickhouse: ClickHouse,
  organizationId: bigint,
  changed: AsyncIterable<bigint>,
): Promise<Sql> {
  const load = newLoad(organizationId);
  let ids: bigint[] = [];
  let isInserted = false;
  const insert = async () => {
    const rows = ids.map((id) => [String(organizationId), load, String(id)]);
    await insertRows(clickhouse, 'purchase', columns, rows);
    isInserted = true;
    ids = [];
  };
  for await (const id of changed) {
    ids.push(id);
    if (ids.length === insertedAtOnce) await insert();
  }
  if (isInserted || ids.length > maxBound) await insert();
  if (!isInserted) return sql`id not in ${listOfIds(ids)}`;
  return sql`id global not in (
    select id from ${table.purchase}
    where organization_id = ${organizationId} and load_id = ${load})`;
}
