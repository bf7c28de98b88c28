import { z } from 'zod';
import { integer } from '../http/wire.ts';
import type { Field } from './record.ts';

/**
 * Fields stored as jsonb. Whatever else is in them, responses show the documented
 * shape: a value of another type, or of another name, is left out.
 */

const kinds = {
  text: {
    schema: z.string().optional(),
    // Whoever stored a house number as a number meant its digits.
    accepts: (value: unknown) => typeof value === 'string' || Number.isFinite(value),
    write: (value: unknown): unknown => String(value),
  },
  number: {
    schema: z.number().optional(),
    // JSON may hold numbers that no double does; they have no value here.
    accepts: (value: unknown) => Number.isFinite(value),
    write: (value: unknown): unknown => value,
  },
  integer: {
    schema: integer().optional(),
    accepts: (value: unknown) => Number.isSafeInteger(value),
    write: (value: unknown): unknown => BigInt(value as number),
  },
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
    const value = Object.hasOwn(stored, name) ? stored[name] : undefined;
    if (kinds[kind].accepts(value)) read[name] = kinds[kind].write(value);
  }
  return read;
}

const isObject = (stored: unknown): stored is Record<string, unknown> =>
  typeof stored === 'object' && stored !== null && !Array.isArray(stored);

const asStored = (column: string): string => column;

/** A field whose value may be anything that JSON can hold. */
type StoredField<Schema extends z.ZodType> = Field<Schema> & {
  readonly write: (stored: unknown) => unknown;
};

/** An object of these members, each of which may be missing. */
export function objectOf<const S extends Shape>(shape: S): StoredField<ObjectSchema<S>> {
  return {
    schema: schemaOf(shape),
    expression: asStored,
    write: (stored: unknown) => readObject(shape, stored),
  };
}

/** A list of such objects; what is no object is left out. */
export function listOfObjects<const S extends Shape>(
  shape: S,
): StoredField<z.ZodArray<ObjectSchema<S>>> {
  return {
    schema: z.array(schemaOf(shape)),
    expression: asStored,
    write: (stored: unknown) =>
      (Array.isArray(stored) ? stored : []).filter(isObject).map((item) => readObject(shape, item)),
  };
}

/** Values under names that the organization chose; one without a value is left out. */
export const freeObject: Field<z.ZodRecord<z.ZodString, z.ZodUnknown>> = {
  schema: z.record(z.string(), z.unknown()),
  expression: asStored,
  write: (stored: unknown) =>
    isObject(stored)
      ? Object.fromEntries(Object.entries(stored).filter(([, value]) => value !== null))
      : {},
};
