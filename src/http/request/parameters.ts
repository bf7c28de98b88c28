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
import { wholeNumber } from '../../domain/whole-number.ts';
import { type Cursor, cursor } from './cursor.ts';

/**
 * The kinds of parameters. Each parses the text of a URL to a domain value, and has metadata for
 * the OpenAPI document.
 */

const maxBigint = 2n ** 63n - 1n;

/** Plain digits within bounds. */
export function integer(bounds: { min: number; max: number; default: number }) {
  const { min, max } = bounds;
  return wholeNumber(min, max, bounds.default).meta({
    type: 'integer',
    minimum: min,
    maximum: max,
    default: bounds.default,
  });
}

/** Cents from 0 to the maximum of a bigint column. */
export const cents = () => bigintOf('a whole number of cents');

/** A number of things from 0 to the maximum of a bigint column. */
export const count = () => bigintOf('a whole number');

function bigintOf(what: string) {
  const message = `must be ${what} from 0 to ${maxBigint}`;
  return z
    .string()
    .regex(/^\d{1,19}$/, message)
    .transform(BigInt)
    .refine((number) => number <= maxBigint, message)
    .meta({ type: 'integer', format: 'int64', minimum: 0 });
}

/** An instant in microseconds. Finer fractions are rounded into the inclusive range of the bound. */
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

/** The id of a row; 0, which no row has, if the public id is well-formed but invalid. */
export function id(
  resource: IdentifiedResource,
  message = `must be an id that begins with ${idPrefixes[resource]}_`,
) {
  const pattern = idPattern(resource);
  return z
    .string()
    .regex(pattern, message)
    .transform((text) => decodeId(resource, text) ?? 0n)
    .meta({ type: 'string', pattern: pattern.source });
}

/** Section 4.1: the parameters of every list. */
export function pageParameters(resource: IdentifiedResource) {
  return { limit: integer(pageLimits), starting_after: cursor(resource).optional() };
}

export type PageParameters = {
  readonly limit: number;
  readonly starting_after?: Cursor | undefined;
};

export function boolean() {
  return z
    .enum(['true', 'false'], 'must be true or false')
    .transform((text) => text === 'true')
    .meta({ type: 'boolean' });
}

export function oneOf<const Values extends readonly [string, ...string[]]>(values: Values) {
  const either = values.length === 1 ? '' : 'one of ';
  return z
    .enum(values, `must be ${either}${values.join(', ')}`)
    .meta({ type: 'string', enum: [...values] });
}

/** Parameters with commas between their values, for clients that send JSON instead of a URL; `names` of a closed set. */
export const commaLists = z.registry<{
  names?: readonly string[] | undefined;
  max?: number;
}>();

/**
 * Names of a closed set with commas between them, without repetition; in the order of the set, so that
 * requests for the same names share a cached response. `all`, which stands alone, is undefined. Lists of
 * more than one name are an addition to the specification.
 */
export function namesOf<const Names extends readonly string[]>(names: Names, all?: string) {
  const alone = all === undefined ? '' : `${all} alone, or `;
  const message = `must be ${alone}one or more of ${names.join(', ')}, with commas between them`;
  const one = `(${names.join('|')})`;
  return z
    .string()
    .transform((text, context): readonly Names[number][] | undefined => {
      if (text === all) return undefined;
      const given = namesIn(text, names, names.length, message, context);
      return names.filter((name) => given.includes(name));
    })
    .meta({
      type: 'string',
      pattern: `^(${all === undefined ? '' : `${all}|`}${one}(,${one})*)$`,
    })
    .register(commaLists, { names: all === undefined ? names : [all, ...names] });
}

/** Whole numbers of a range with commas between them, without repetition, ascending. */
export function numbersOf(first: number, last: number) {
  const all = Array.from({ length: last - first + 1 }, (_, index) => String(first + index));
  const numbers = namesOf(all).transform((texts) => texts?.map(Number));
  return numbers.meta(namesOf(all).meta() ?? {}).register(commaLists, { names: undefined });
}

/** Up to `max` names of a closed set with commas between them, in the order of the request. */
export function orderedNamesOf<const Names extends readonly string[]>(
  names: Names,
  max: number = names.length,
) {
  const message = `must be one to ${max} of ${names.join(', ')}, with commas between them`;
  const one = `(${names.join('|')})`;
  return z
    .string()
    .transform((text, context) => namesIn(text, names, max, message, context))
    .meta({ type: 'string', pattern: `^${one}(,${one}){0,${max - 1}}$` })
    .register(commaLists, { names, max });
}

function namesIn<const Names extends readonly string[]>(
  text: string,
  names: Names,
  max: number,
  message: string,
  context: z.core.$RefinementCtx<string>,
): readonly Names[number][] {
  const given = text.split(',');
  const repeated = given.find((name, index) => given.indexOf(name) < index);
  if (!given.every((name) => names.includes(name)) || given.length > max) {
    context.addIssue(message);
  } else if (repeated !== undefined) {
    context.addIssue(`must have each name once, and has ${repeated} more than once`);
  }
  return given;
}

/**
 * The canonical name of a time zone; `UTC` by default. A plus that is not encoded arrives as a space, which
 * no name has. An addition to the specification.
 */
export const timeZone = () => zoneName().default('UTC').meta({ type: 'string', default: 'UTC' });

/** The canonical name of a time zone. */
export function zoneName() {
  return z
    .string()
    .transform((name, context) => {
      const canonical = canonicalTimeZone(name.replaceAll(' ', '+'));
      if (canonical !== null) return canonical;
      context.addIssue('must be the IANA name of a time zone such as America/Sao_Paulo');
      return z.NEVER;
    })
    .meta({ type: 'string' });
}

/** Text with a bounded number of characters (Unicode code points). */
export function text(bounds: { min: number; max: number }) {
  const { min, max } = bounds;
  const message = `must be ${min} to ${max} characters long`;
  return z
    .string()
    .refine((value) => !value.includes('\0'), 'must not contain the character NUL')
    .refine((value) => {
      const length = [...value].length;
      return length >= min && length <= max;
    }, message)
    .meta({ type: 'string', minLength: min, maxLength: max });
}

/**
 * A parameter that may be given up to `max` times, of which any value may match. The values are sorted, so that
 * requests for the same ones share a cached response. An addition to the specification.
 */
export function severalOf<Item extends z.ZodType<string>>(item: Item, max: number) {
  return z
    .array(item)
    .max(max, `must be given at most ${max} times`)
    .transform((values, context): readonly string[] => {
      if (new Set(values).size < values.length) {
        context.addIssue('must have each value once, and has one more than once');
      }
      return [...values].sort();
    })
    .meta({ type: 'array', items: item.meta(), maxItems: max, uniqueItems: true });
}

/** The field that an optional field, or one with a default, wraps. */
export function withoutWrapper(field: z.ZodType): z.ZodType {
  const { innerType } = field.def as { innerType?: z.ZodType };
  return innerType === undefined ? field : withoutWrapper(innerType);
}
