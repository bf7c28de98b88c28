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
import { ApiError } from '../response/errors.ts';
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
export function cents() {
  const message = `must be a whole number of cents from 0 to ${maxBigint}`;
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
export const commaLists = z.registry<{ names?: readonly string[]; max?: number }>();

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

/** Whether a parameter may be given several times, which makes its value an array. */
const isRepeatable = (field: z.ZodType): boolean => withoutWrapper(field).meta()?.type === 'array';

/** The field that an optional field, or one with a default, wraps. */
export function withoutWrapper(field: z.ZodType): z.ZodType {
  const { innerType } = field.def as { innerType?: z.ZodType };
  return innerType === undefined ? field : withoutWrapper(innerType);
}

/** Values by the name of a parameter: several if it is given several times. */
export type GivenValues = Readonly<Record<string, string | readonly string[]>>;

/**
 * Validates parameters. The error names the first invalid one (section 7). Empty values are
 * invalid: an unfilled field of a BI tool must not become a filter that matches nothing.
 */
export function readParameters<Schema extends z.ZodType>(
  schema: Schema,
  given: GivenValues,
): z.output<Schema> {
  const values = valuesFor(schema, given);
  const parsed = schema.safeParse(values);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  if (issue?.code === 'unrecognized_keys') {
    const param = issue.keys[0] ?? '';
    if (param === '') {
      throw new ApiError('validation_error', 'The query string has a value without a name.');
    }
    throw new ApiError('validation_error', `There is no parameter ${quote(param)} here.`, {
      param,
    });
  }
  const param = String(issue?.path[0] ?? '');
  const problem =
    [given[param]].flat().includes('') && isOptional(schema, values, param)
      ? 'is empty: give it a value or leave the parameter out'
      : (issue?.message ?? 'is not valid');
  throw new ApiError('validation_error', `${param} ${problem}.`, { param });
}

/** The values as the fields of the schema parse them. Throws if another parameter than a list is repeated. */
function valuesFor(schema: z.ZodType, given: GivenValues): GivenValues {
  const { shape } = schema as z.ZodObject;
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => {
      const all = typeof value === 'string' ? [value] : value;
      if (Object.hasOwn(shape, name) && isRepeatable(shape[name] as z.ZodType)) return [name, all];
      const [first = '', second] = all;
      if (second === undefined) return [name, first];
      const message = `The parameter ${quote(name)} is given more than once.`;
      throw new ApiError('validation_error', message, { param: name });
    }),
  );
}

/** Whether a request may leave a parameter out. */
function isOptional(schema: z.ZodType, given: GivenValues, param: string): boolean {
  const { [param]: _empty, ...others } = given;
  const { error } = schema.safeParse(others);
  return !error?.issues.some(({ path }) => path[0] === param);
}

function quote(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name);
}

export function queryStringOf(url = ''): string {
  return /\?(.*)$/s.exec(url)?.[1] ?? '';
}

/** Parses a query string to the values of each name. Rejects invalid percent-encoded UTF-8. */
export function parseQueryString(text: string): Record<string, readonly string[]> {
  const parameters: Record<string, readonly string[]> = Object.create(null);
  for (const part of text.split('&')) {
    if (part === '') continue;
    const separator = part.indexOf('=');
    const name = decode(separator === -1 ? part : part.slice(0, separator));
    const value = separator === -1 ? '' : decode(part.slice(separator + 1), name);
    parameters[name] = [...(parameters[name] ?? []), value];
  }
  return parameters;
}

function decode(text: string, param?: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new ApiError(
      'invalid_request',
      'The query string is not valid percent-encoded UTF-8.',
      param === undefined ? {} : { param },
    );
  }
}
