import { z } from 'zod';
import { digitsOf, isNumber, isText, parseExactly } from '../http/response/exact-numbers.ts';
import { integer } from '../http/response/wire.ts';
import type { Field } from './record.ts';

/**
 * Fields stored as jsonb. Whatever else is in them, responses show the documented
 * shape: a value of another type, or of another name, is left out.
 */

/** What each kind reads of a stored value; undefined where that is of another type. */
const kinds = {
  text: {
    schema: z.string().optional(),
    // Whoever stored a house number as a number meant its digits.
    read: (value: unknown): unknown => {
      if (isText(value)) return value;
      return isNumber(value) ? digitsOf(value) : undefined;
    },
  },
  number: {
    schema: z.number().optional(),
    // JSON may hold numbers that no double does; they have no value here.
    read: (value: unknown): unknown => (isNumber(value) ? value : undefined),
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

/** What a bigint column could hold as well: more is no integer of the description's. */
function wholeNumber(value: unknown): bigint | undefined {
  if (!isNumber(value)) return undefined;
  const digits = /^(-?\d+)(?:\.0+)?$/.exec(digitsOf(value))?.[1];
  if (digits === undefined) return undefined;
  const whole = BigInt(digits);
  return BigInt.asIntN(64, whole) === whole ? whole : undefined;
}

const asText = (column: string): string => `${column}::text`;

/** A field that is read as the JSON text of anything at all. */
type StoredField<Schema extends z.ZodType> = Field<Schema> & {
  readonly write: (json: string) => unknown;
};

/** An object of these members, each of which may be missing. */
export function objectOf<const S extends Shape>(shape: S): StoredField<ObjectSchema<S>> {
  return {
    schema: schemaOf(shape),
    expression: asText,
    write: (json) => readObject(shape, parseExactly(json)),
  };
}

/** A list of such objects; what is no object is left out. */
export function listOfObjects<const S extends Shape>(
  shape: S,
): StoredField<z.ZodArray<ObjectSchema<S>>> {
  return {
    schema: z.array(schemaOf(shape)),
    expression: asText,
    write: (json) => {
      const stored = parseExactly(json);
      const items: unknown[] = Array.isArray(stored) ? stored : [];
      return items.filter(isObject).map((item) => readObject(shape, item));
    },
  };
}

/** Values under names that the organization chose; one without a value is left out. */
export const freeObject: StoredField<z.ZodRecord<z.ZodString, z.ZodUnknown>> = {
  schema: z.record(z.string(), z.unknown()),
  expression: asText,
  write: (json) => {
    const stored = parseExactly(json);
    return isObject(stored)
      ? Object.fromEntries(Object.entries(stored).filter(([, value]) => hasValue(value)))
      : {};
  },
};

const hasValue = (value: unknown): boolean =>
  value !== null && (typeof value !== 'number' || isNumber(value));
