import type { PublishedContent } from './published-content.ts';
import type { PurchaseRange } from './purchase-range.ts';

/** The column that splits a range: creation, or id if all purchases have one creation. */
type Axis = {
  readonly name: 'created' | 'id';
  readonly first: bigint;
  readonly last: bigint;
  readonly from: 'createdSince' | 'idFrom';
  readonly until: 'createdUntil' | 'idUntil';
};

const bins = 1024n;

/**
 * Splits a range into consecutive ones of at most `maxRows` published purchases. Ranges of
 * creation come first, because the stores and the index in Postgres are in that order.
 */
export async function splitRange(
  content: Pick<PublishedContent, 'bounds' | 'histogram'>,
  range: PurchaseRange,
  maxRows: number,
): Promise<PurchaseRange[]> {
  const { count, created, ids } = await content.bounds(range);
  if (count <= maxRows) return [range];
  const axis: Axis =
    created[0] < created[1]
      ? {
          name: 'created',
          first: created[0],
          last: created[1],
          from: 'createdSince',
          until: 'createdUntil',
        }
      : { name: 'id', first: ids[0], last: ids[1], from: 'idFrom', until: 'idUntil' };
  const width = (axis.last - axis.first) / bins + 1n;
  const histogram = await content.histogram(range, axis.name, axis.first, width);
  const parts = cut(range, axis, width, histogram, maxRows);
  if (parts.length === 1) return [range];
  const split: PurchaseRange[] = [];
  for (const part of parts) {
    // One bin may hold too many purchases after an import.
    if (part.count <= maxRows) split.push(part.range);
    else split.push(...(await splitRange(content, part.range, maxRows)));
  }
  return split;
}

function cut(
  range: PurchaseRange,
  axis: Axis,
  width: bigint,
  histogram: readonly (readonly [bin: bigint, count: bigint])[],
  maxRows: number,
): { range: PurchaseRange; count: bigint }[] {
  const parts: { range: PurchaseRange; count: bigint }[] = [];
  let rest = range;
  let restCount = 0n;
  for (const [bin, count] of histogram) {
    const start = axis.first + bin * width;
    const isWithin = start > rest[axis.from] && start <= rest[axis.until];
    if (isWithin && restCount > 0n && restCount + count > maxRows) {
      parts.push({ range: { ...rest, [axis.until]: start - 1n }, count: restCount });
      rest = { ...rest, [axis.from]: start };
      restCount = 0n;
    }
    restCount += count;
  }
  return [...parts, { range: rest, count: restCount }];
}
