import { z } from 'zod';
import { earliestInstant, latestInstant } from '../../domain/instant.ts';
import { decodeId, encodeId, type IdentifiedResource, idPattern } from '../../domain/public-id.ts';
import type { KeysetOrder } from '../../postgres/lists/keyset-statement.ts';
import { ApiError } from '../response/errors.ts';

/** Where a page begins: after this item, at the place that it had when the previous page ended. */
export type Cursor = {
  readonly id: bigint;
  /** Null in a cursor that is only an id: the item's present place counts. */
  readonly place: Place | null;
};

/** The value of the column that orders the list; instants in microseconds since 1970. */
type Place = { readonly column: KeysetOrder['column']; readonly value: bigint };

const letters = { created_at: 'c', updated_at: 'u', total_spent_in_cents: 't' } as const;
const columns = Object.keys(letters) as Place['column'][];

/** Such as `cus_mBxLDNpBEZ6W.u1767225600000000`. */
export const encodeCursor = (
  resource: IdentifiedResource,
  id: bigint,
  { column, value }: Place,
): string => `${encodeId(resource, id)}.${letters[column]}${value}`;

/** The last item of the previous page. An invalid cursor is 400, no validation error. */
export function cursor(resource: IdentifiedResource) {
  const pattern = idPattern(resource).source.replace(/\$$/, '(\\.[ctu]-?[0-9]{1,19})?$');
  return z
    .string()
    .min(1)
    .transform((text): Cursor => {
      const [publicId = '', encoded, ...others] = text.split('.');
      const id = decodeId(resource, publicId);
      const place = encoded === undefined ? null : decodePlace(encoded);
      if (id === null || place === undefined || others.length > 0) throw invalidCursor();
      return { id, place };
    })
    .meta({ type: 'string', pattern });
}

/** Undefined if no page ends there. Any other place is safe: a list has only the organization's items. */
function decodePlace(encoded: string): Place | undefined {
  const [, letter, digits] = /^([ctu])(-?\d{1,19})$/.exec(encoded) ?? [];
  const column = columns.find((each) => letters[each] === letter);
  if (column === undefined) return undefined;
  const value = BigInt(digits as string);
  const [min, max] =
    column === 'total_spent_in_cents'
      ? [-(2n ** 63n), 2n ** 63n - 1n]
      : [earliestInstant, latestInstant];
  return value < min || value > max ? undefined : { column, value };
}

/** The place of a cursor in a list of this order; undefined if it has none. */
export function placeIn(
  { place }: Cursor,
  { column }: Pick<KeysetOrder, 'column'>,
): bigint | undefined {
  if (place === null) return undefined;
  if (place.column !== column) throw invalidCursor();
  return place.value;
}

export const invalidCursorMessage =
  'starting_after is not the id of an item of this list, or the item was deleted. Send the header ' +
  'X-Next-Cursor of the previous page, which is valid after deletions too.';

export const invalidCursor = (): ApiError =>
  new ApiError('invalid_request', invalidCursorMessage, { param: 'starting_after' });
