import { z } from 'zod';
import { digitsOf, isNumber, isText, numberIn, parseExactly } from '../domain/exact-numbers.ts';
import { integer } from '../http/response/wire.ts';
import type { Field } from './record/record.ts';

/**
 * Fields that are stored as jsonb. Responses have the documented shape: values with another type or
 * name are omitted.
 */

/** `read` returns undefined for a value of another type. */
const kinds = {
  text: {
    schema: z.string().optional(),
    // A house number that is stored as a number is shown as text.
    read: (value: unknown): unknown => {
      if (isText(value)) return value;
      return isNumber(value) ? digitsOf(value) : undefined;
    },
  },
  number: {
    schema: z.number().optional(),
    read: number,
  },
  integer: { schema: integer().optional(), read: wholeNumber },
} as const;
type Kind = keyof typeof kinds;
type Shape = Readonly<Record<string, Kind>>;
type ObjectSchema<S extends Shape> = z.ZodObject<{
  [Name in keyof S]: (typeof kinds)[S[Name]]['schema'];
}>;

function schemaOf<const S extends Shape>(shape: S): ObjectSchema<S> {
  const schemas = Object.entries(shape).map(([name, kind]) => [name, kinds[kind].schema]);
  return z.object(Object.fromEntries(schemas)) as unknown as ObjectSchema<S>;
}

function readObject(shape: Shape, stored: unknown): Record<string, unknown> {
  if (!isObject(stored)) return {};
  const read: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(shape)) {
    const value = Object.hasOwn(stored, name) ? kinds[kind].read(stored[name]) : undefined;
    if (value !== undefined) read[name] = value;
  }
  return read;
}

const isObject = (stored: unknown): stored is Record<string, unknown> =>
  typeof stored === 'object' && stored !== null && !Array.isArray(stored);

/** A number beyond all doubles is omitted. Shops also store numbers as text. */
function number(value: unknown): number | string | undefined {
  const read = isText(value) ? numberIn(value) : value;
  return isNumber(read) ? read : undefined;
}

/** An int64, as in the OpenAPI document. */
function wholeNumber(value: unknown): bigint | undefined {
  const read = number(value);
  const digits = read === undefined ? null : /^(-?\d+)(?:\.0+)?$/.exec(digitsOf(read))?.[1];
  if (digits == null) return undefined;
  const whole = BigInt(digits);
  return BigInt.asIntN(64, whole) === whole ? whole : undefined;
}

const asText = (column: string): string => `${column}::text`;

/** A field that is read as JSON text. */
type StoredField<Schema extends z.ZodType> = Field<Schema> & {
  readonly serialize: (json: string) => unknown;
};

/** An object of optional members. */
export function objectOf<const S extends Shape>(shape: S): StoredField<ObjectSchema<S>> {
  return {
    schema: schemaOf(shape),
    kind: 'json',
    expression: asText,
    serialize: (json) => readObject(shape, parseExactly(json)),
  };
}

/** A list of objects of optional members. Other items are omitted. */
export function listOfObjects<const S extends Shape>(
  shape: S,
): StoredField<z.ZodArray<ObjectSchema<S>>> {
  return {
    schema: z.array(schemaOf(shape)),
    kind: 'json',
    expression: asText,
    serialize: (json) => {
      const stored = parseExactly(json);
      const items: unknown[] = Array.isArray(stored) ? stored : [];
      return items.filter(isObject).map((item) => readObject(shape, item));
    },
  };
}

/** An object with names that the organization defines. Null values are omitted, also nested ones. */
export const freeObject: StoredField<z.ZodRecord<z.ZodString, z.ZodUnknown>> = {
  schema: z.record(z.string(), z.unknown()),
  kind: 'json',
  expression: asText,
  serialize: (json) => {
    const stored = parseExactly(json);
    return isObject(stored) ? withoutNulls(stored) : {};
  },
};

/** Items of a list keep their positions. */
function withoutNulls(stored: unknown): unknown {
  if (Array.isArray(stored)) return stored.map(withoutNulls);
  if (!isObject(stored)) return stored;
  const present = Object.entries(stored).filter(([, value]) => hasValue(value));
  return Object.fromEntries(present.map(([name, value]) => [name, withoutNulls(value)]));
}

const hasValue = (value: unknown): boolean =>
  value !== null && (typeof value !== 'number' || isNumber(value));
