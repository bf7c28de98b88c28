import sql, { raw } from 'sql-template-tag';
import { encodeId } from '../../src/domain/public-id.ts';
import { isTextColumn, maxPurchaseTextBytes, purchaseColumns } from '../../src/domain/purchase.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { PoisonedPurchaseError } from '../failure.ts';

const instants = purchaseColumns.filter(({ kind }) => kind === 'instant');
// Neither infinite, nor in a year that ISO 8601 writes with more than four digits.
const isImpossible = instants
  .map(
    ({ name }) => `not (${name} >= '0001-01-01T00:00:00Z' and ${name} < '10000-01-01T00:00:00Z')`,
  )
  .join(' or ');

const textBytes = purchaseColumns
  .filter(isTextColumn)
  .map(({ name }) => `coalesce(octet_length(${name}::text), 0)::bigint`)
  .join(' + ');
const isTooLong = `${textBytes} > ${maxPurchaseTextBytes}`;

/**
 * Names a purchase that cannot be copied, for its instants or its length; null where
 * there is none. It reads the whole organization: for after a failure only.
 */
export async function findPoisonedPurchase(
  database: Database,
  organizationId: bigint,
): Promise<PoisonedPurchaseError | null> {
  const { rows } = await database.query<{ id: bigint; is_too_long: boolean }>(sql`
    select id, ${raw(isTooLong)} as is_too_long from purchases
    where organization_id = ${organizationId} and (${raw(isImpossible)} or ${raw(isTooLong)})
    limit 1`);
  const [row] = rows;
  if (row === undefined) return null;
  const value = row.is_too_long
    ? `texts of more than ${maxPurchaseTextBytes / 2 ** 20} MiB together`
    : 'a time outside the years 1 to 9999';
  return new PoisonedPurchaseError(encodeId('purchase', row.id), value);
}
