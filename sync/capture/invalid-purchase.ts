import sql, { raw } from 'sql-template-tag';
import { encodeId } from '../../src/domain/public-id.ts';
import { isTextColumn, maxPurchaseTextBytes, purchaseColumns } from '../../src/domain/purchase.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { InvalidPurchaseError } from '../failure.ts';

const instants = purchaseColumns.filter(({ kind }) => kind === 'instant');
// ISO 8601 has no infinite instants, and years of four digits only.
const isOutOfRange = instants
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
 * Finds a purchase with an instant or a length that cannot be copied; null if there is none.
 * The query reads all purchases of the organization, so it runs only after a failure.
 */
export async function findInvalidPurchase(
  database: Database,
  organizationId: bigint,
): Promise<InvalidPurchaseError | null> {
  const { rows } = await database.query<{ id: bigint; is_too_long: boolean }>(sql`
    select id, ${raw(isTooLong)} as is_too_long from purchases
    where organization_id = ${organizationId} and (${raw(isOutOfRange)} or ${raw(isTooLong)})
    limit 1`);
  const [row] = rows;
  if (row === undefined) return null;
  const value = row.is_too_long
    ? `texts of more than ${maxPurchaseTextBytes / 2 ** 20} MiB together`
    : 'a time outside the years 1 to 9999';
  return new InvalidPurchaseError(encodeId('purchase', row.id), value);
}
