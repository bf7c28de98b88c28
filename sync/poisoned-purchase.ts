import sql, { raw } from 'sql-template-tag';
import { encodeId } from '../src/domain/public-id.ts';
import { purchaseColumns } from '../src/domain/purchase.ts';
import type { Database } from '../src/postgres/pool.ts';

const instants = purchaseColumns.filter(({ kind }) => kind === 'instant');
// Neither infinite, nor in a year that ISO 8601 writes with more than four digits.
const isImpossible = instants
  .map(
    ({ name }) => `not (${name} >= '0001-01-01T00:00:00Z' and ${name} < '10000-01-01T00:00:00Z')`,
  )
  .join(' or ');

/**
 * The public id of a purchase whose instants no answer could show; null where
 * there is none. It reads the whole organization: for after a failure only.
 */
export async function findPoisonedPurchase(
  database: Database,
  organizationId: bigint,
): Promise<string | null> {
  const { rows } = await database.query<{ id: bigint }>(sql`
    select id from purchases
    where organization_id = ${organizationId} and (${raw(isImpossible)})
    limit 1`);
  return rows[0] === undefined ? null : encodeId('purchase', rows[0].id);
}
