import { z } from 'zod';
import { parseInstant } from '../../domain/instant.ts';
import {
  decodeId,
  type IdentifiedResource,
  idPattern,
  idPrefixes,
} from '../../domain/public-id.ts';
import { pageLimits } from '../../domain/purchase-query.ts';
import { canonicalTimeZone } from '../../domain/time-zone.ts';
import { ApiError } from '../response/errors.ts';

/**
 * The kinds of parameters that routes take. Each reads the text of a URL into a
 * domain value, and carries in its metadata how the API's description shows it.
 */

const largestBigint = 2n ** 63n - 1n;

/** Plain digits within bounds. */
export function integer(bounds: { least: number; most: number; default: number }) {
  const { least, most } = bounds;
  const message = `must be a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .transform(Number)
    .refine((number) => number >= least && number <= most, message)
    .default(bounds.default)
    .meta({ type: 'integer', minimum: least, maximum: most, default: bounds.default });
}

/** Cents from 0 to what a bigint column holds. */
export function cents() {
  const message = 'must be a whole number of cents, 0 or more';
  return z
    .string()
    .regex(/^\d{1,19}$/, message)
    .transform(BigInt)
    .refine((number) => number <= largestBigint, message)
    .meta({ type: 'integer', format: 'int64', minimum: 0 });
}

/**
 * An instant in microseconds. `lower` and `upper` are inclusive bounds: finer
 * fractions are rounded into the range.
 */
export function instant(bound: 'lower' | 'upper') {
  return z
    .string()
    .transform((text, context) => {
      const parsed = parseInstant(text, bound === 'lower' ? 'up' : 'down');
      if (parsed !== null) return parsed;
      context.addIssue('must be an ISO 8601 date-time such as 2026-01-31T23:59:59Z');
      return z.NEVER;
    })
    .meta({ type: 'string', format: 'date-time' });
}

/** A row's number; 0, which no row has, where the id is well-formed and nobody's. */
export function id(resource: IdentifiedResource) {
  const pattern = idPattern(resource);
  return z
    .string()
    .regex(pattern, `must be an id that begins with ${idPrefixes[resource]}_`)
    .transform((text) => decodeId(resource, text) ?? 0n)
    .meta({ type: 'string', pattern: pattern.source });
}

/**
 * The id of the last item of the page before. Anything that cannot be one is an
 * invalid cursor (400), not a validation error.
 */
export function cursor(resource: IdentifiedResource) {
  return z
    .string()
    .transform((text) => {
      const decoded = decodeId(resource, text);
      if (decoded === null) throw invalidCursor();
      return decoded;
    })
    .meta({ type: 'string', pattern: idPattern(resource).source });
}

export const invalidCursor = (): ApiError =>
  new ApiError('invalid_request', 'starting_after is not the id of an item of this list.', {
    param: 'starting_after',
  });

/** Section 4.1: the parameters of every list. */
export function pageParameters(resource: IdentifiedResource) {
  return { limit: integer(pageLimits), starting_after: cursor(resource).optional() };
}

export function boolean() {
  return z
    .enum(['true', 'false'], 'must be true or false')
    .transform((text) => text === 'true')
    .meta({ type: 'boolean' });
}

export function oneOf<const Values extends readonly [string, ...string[]]>(values: Values) {
  return z
    .enum(values, `must be one of ${values.join(', ')}`)
    .meta({ type: 'string', enum: [...values] });
}

/** A time zone's canonical name; UTC where none is given. An addition to the specification. */
export function timeZone() {
  return z
    .string()
    .transform((name, context) => {
      const canonical = canonicalTimeZone(name);
      if (canonical !== null) return canonical;
      context.addIssue('must be the IANA name of a time zone such as America/Sao_Paulo');
      return z.NEVER;
    })
    .default('UTC')
    .meta({ type: 'string', default: 'UTC' });
}

/** Text of so many characters (Unicode code points). */
export function text(bounds: { least: number; most: number }) {
  const { least, most } = bounds;
  const message = `must be ${least} to ${most} characters long`;
  return z
    .string()
    .refine((value) => !value.includes('\0'), 'must not contain the character NUL')
    .refine((value) => {
      const length = [...value].length;
      return length >= least && length <= most;
    }, message)
    .meta({ type: 'string', minLength: least, maxLength: most });
}

/**
 * Validates parameters; the first that fails is named in the error (section 7). An empty value
 * never passes: it may be an unfilled field, and as a filter it would match nothing.
 */
export function readParameters<Schema extends z.ZodType>(
  schema: Schema,
  given: Record<string, string>,
): z.output<Schema> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  if (issue?.code === 'unrecognized_keys') {
    const param = issue.keys[0] ?? '';
    throw new ApiError('validation_error', `There is no parameter ${quote(param)} here.`, {
      param,
    });
  }
  const param = String(issue?.path[0] ?? '');
  const problem =
    given[param] === ''
      ? 'is empty: give it a value or leave the parameter out'
      : (issue?.message ?? 'is not valid');
  throw new ApiError('validation_error', `${param} ${problem}.`, { param });
}

function quote(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name);
}
