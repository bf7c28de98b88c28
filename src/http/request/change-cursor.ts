import { z } from 'zod';
import type { ChangePosition } from '../../domain/purchase-changes.ts';
import { ApiError } from '../response/errors.ts';

// The name of the log, then numbers to the base 36.
const pattern = /^([0-9a-f]{12})\.([0-9a-z]{1,10})\.([0-9a-z]{1,10})\.([0-9a-z]{0,7})$/;
const base = 36;

/** The position as text, which clients do not interpret. */
export const encodeChangeCursor = ({ log, batch, record, checksum }: ChangePosition): string =>
  [
    log.replace(/^log-|\.tsv$/g, ''),
    batch.toString(base),
    record.toString(base),
    checksum?.toString(base) ?? '',
  ].join('.');

/**
 * A position of the change feed. An invalid cursor is 400, as in lists. A position is found only in the
 * logs of the key's organization, so one of another organization is unknown.
 */
export function changeCursor() {
  return z
    .string()
    .min(1)
    .transform((text): ChangePosition => {
      const [, log, batch = '', record = '', checksum = ''] = pattern.exec(text) ?? [];
      if (log === undefined) {
        throw new ApiError('invalid_request', 'cursor is no cursor of the change feed.', {
          param: 'cursor',
        });
      }
      return {
        log: `log-${log}.tsv`,
        batch: Number.parseInt(batch, base),
        record: Number.parseInt(record, base),
        checksum: checksum === '' ? null : Number.parseInt(checksum, base),
      };
    })
    .meta({ type: 'string', pattern: pattern.source });
}
