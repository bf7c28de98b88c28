import { z } from 'zod';
import { ApiError } from '../response/errors.ts';

/** The positions of all stores: a name, then two or three numbers to a base of at most 36. */
const pattern = /^[0-9a-f]{12}(\.[0-9a-z]{0,19}){2,3}$/;

/**
 * A position of the change feed. An invalid cursor is 400, as in lists. Names belong to one organization, so a
 * position of another one is unknown.
 */
export function changeCursor() {
  return z
    .string()
    .min(1)
    .transform((text): string => {
      if (pattern.test(text)) return text;
      throw new ApiError('invalid_request', 'cursor is no cursor of the change feed.', {
        param: 'cursor',
      });
    })
    .meta({ type: 'string', pattern: pattern.source });
}
