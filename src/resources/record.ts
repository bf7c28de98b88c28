import { z } from 'zod';
import { formatInstant } from '../domain/instant.ts';
import { encodeId, type IdentifiedResource, idPrefixes } from '../domain/public-id.ts';
import { dateTime, integer as integerSchema, named, publicId } from '../http/response/wire.ts';
import { microsecondsOf } from '../postgres/instants.ts';
import type { KeysetTable } from '../postgres/keyset-statement.ts';

/**
 * Resources that are rows of one Postgres table. A record states once which
 * fields a resource has; the response's schema, the select list and what is
 * written derive from it.
 */

/** A field of a resource, read from the column of the same name. */
export type Field<Schema extends z.ZodType = z.ZodType> = {
  readonly schema: Schema;
  /** The SQL that reads it, of its qualified column; none where the id says it all. */
  readonly expression: ((column: string) => string) | null;
  /** What the response shows of a value that is not null. */
  readonly write: (value: never, of: WhatIsWritten) => unknown;
};

/** What a field may need to know besides its value. */
type WhatIsWritten = { readonly publicId: string; readonly publicAppUrl: string };

const unchanged = (column: string): string => column;
const asRead = (value: unknown): unknown => value;

export const text: Field<z.ZodString> = {
  schema: z.string(),
  expression: unchanged,
  write: asRead,
};
export const choice = <const Values extends readonly [string, ...string[]]>(
  values: Values,
): Field<z.ZodEnum<{ [Value in Values[number]]: Value }>> => ({ ...text, schema: z.enum(values) });
export const flag: Field<z.ZodBoolean> = {
  schema: z.boolean(),
  expression: unchanged,
  write: asRead,
};
export const integer: Field<ReturnType<typeof integerSchema>> = {
  schema: integerSchema(),
  expression: unchanged,
  write: asRead,
};
export const instant: Field<ReturnType<typeof dateTime>> = {
  schema: dateTime(),
  expression: microsecondsOf,
  write: formatInstant,
};

const htmlFolders = {
  customer: 'customers',
  segment: 'segments',
  flow: 'flows',
  email_campaign: 'email-campaigns',
  template_campaign: 'template-campaigns',
} as const satisfies Partial<Record<IdentifiedResource, string>>;

/** Where the resource is shown to people (section 2.1). */
export function htmlUrl(resource: keyof typeof htmlFolders): Field<z.ZodURL> {
  const path = (id: string) => `${htmlFolders[resource]}/${id}`;
  const example = `https://shop.example/app/${path(`${idPrefixes[resource]}_mBxLDNpBEZ6W`)}`;
  return {
    schema: z.url().meta({ examples: [example] }),
    expression: null,
    write: (_value, { publicAppUrl, publicId }) => `${publicAppUrl}/${path(publicId)}`,
  };
}
/** A field that is left out where it has no value (section 2.1). */
export function optional<Schema extends z.ZodType>(
  field: Field<Schema>,
): Field<z.ZodOptional<Schema>> {
  return { ...field, schema: field.schema.optional() };
}

type RecordSchema<Fields extends Record<string, Field>> = z.ZodObject<
  { object: z.ZodLiteral<string>; id: z.ZodString } & {
    [Name in keyof Fields]: Fields[Name]['schema'];
  }
>;

export type ResourceRecord<Fields extends Record<string, Field> = Record<string, Field>> = {
  readonly resource: IdentifiedResource;
  readonly table: KeysetTable;
  readonly fields: Fields;
  readonly selectList: string;
  readonly schema: RecordSchema<Fields>;
};

export function defineRecord<const Fields extends Record<string, Field>>(
  title: string,
  resource: IdentifiedResource,
  table: KeysetTable,
  fields: Fields,
): ResourceRecord<Fields> {
  const schemas = Object.entries(fields).map(([name, { schema }]) => [name, schema]);
  const expressions = Object.entries(fields).flatMap(([name, { expression }]) =>
    expression === null ? [] : [`${expression(`${table}.${name}`)} as ${name}`],
  );
  return {
    resource,
    table,
    fields,
    selectList: [`${table}.id`, ...expressions].join(', '),
    schema: named(
      title,
      z.object({
        object: z.literal(resource),
        id: publicId(resource),
        ...Object.fromEntries(schemas),
      }),
    ) as unknown as RecordSchema<Fields>,
  };
}

export type Written<Fields extends Record<string, Field>> = z.output<RecordSchema<Fields>>;

/** A row, keyed by field, as responses show it: what has no value is left out. */
export type RecordRow = { readonly id: bigint; readonly [field: string]: unknown };

export function onTheWire<Fields extends Record<string, Field>>(
  { resource, fields }: ResourceRecord<Fields>,
  row: RecordRow,
  publicAppUrl: string,
): Written<Fields> {
  const publicId = encodeId(resource, row.id);
  const written: Record<string, unknown> = { object: resource, id: publicId };
  const of = { publicId, publicAppUrl };
  for (const [name, field] of Object.entries(fields)) {
    const value = row[name];
    if (value !== null) written[name] = field.write(value as never, of);
  }
  return written as Written<Fields>;
}
