import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import { encodeId, type IdentifiedResource, idPrefixes } from '../../domain/public-id.ts';
import type { TableColumnKind } from '../../http/formats/table.ts';
import { dateTime, integer as integerSchema, named, publicId } from '../../http/response/wire.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import type { KeysetTable } from '../../postgres/lists/keyset-statement.ts';

/**
 * Resources that are rows of one Postgres table. The schema, the select list and the serialization
 * of a resource derive from the fields of its record.
 */

/** A field of a resource, read from the column of the same name. */
export type Field<Schema extends z.ZodType = z.ZodType> = {
  readonly schema: Schema;
  /** Of its column in formats other than JSON. */
  readonly kind: TableColumnKind;
  /** The SQL expression of a qualified column; null if the field depends only on the id. */
  readonly expression: ((column: string) => string) | null;
  /** Converts a value that is not null. */
  readonly serialize: (value: never, context: FieldContext) => unknown;
};

type FieldContext = { readonly publicId: string; readonly publicAppUrl: string };

/** A value that the response shows as Postgres returns it. */
const plain = <Schema extends z.ZodType>(kind: TableColumnKind, schema: Schema): Field<Schema> => ({
  schema,
  kind,
  expression: (column) => column,
  serialize: (value: unknown) => value,
});

export const text = plain('text', z.string());
export const flag = plain('boolean', z.boolean());
export const integer = plain('integer', integerSchema());
export const described = <Schema extends z.ZodType>(
  field: Field<Schema>,
  description: string,
): Field<Schema> => ({
  ...field,
  schema: field.schema.meta({ ...field.schema.meta(), description }),
});
export const choice = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  plain('label', z.enum(values));
export const instant: Field<ReturnType<typeof dateTime>> = {
  schema: dateTime(),
  kind: 'instant',
  expression: microsecondsOf,
  serialize: formatInstant,
};

export const htmlFolders = {
  customer: 'customers',
  segment: 'segments',
  flow: 'flows',
  email_campaign: 'email-campaigns',
  template_campaign: 'template-campaigns',
} as const satisfies Partial<Record<IdentifiedResource, string>>;

/** The URL of the resource in the application (section 2.1). */
export function htmlUrl(resource: keyof typeof htmlFolders): Field<z.ZodURL> {
  const path = (id: string) => `${htmlFolders[resource]}/${id}`;
  const example = `https://shop.example/app/${path(`${idPrefixes[resource]}_mBxLDNpBEZ6W`)}`;
  return {
    schema: z.url().meta({ examples: [example] }),
    kind: 'text',
    expression: null,
    serialize: (_value, { publicAppUrl, publicId }) => `${publicAppUrl}/${path(publicId)}`,
  };
}

/** A field that is omitted without a value (section 2.1). */
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

export type RecordResponse<Fields extends Record<string, Field>> = z.output<RecordSchema<Fields>>;

export type RecordRow = { readonly id: bigint; readonly [field: string]: unknown };

/** A record of a response, without missing values. */
export function serializeRecord<Fields extends Record<string, Field>>(
  { resource, fields }: ResourceRecord<Fields>,
  row: RecordRow,
  publicAppUrl: string,
): RecordResponse<Fields> {
  const publicId = encodeId(resource, row.id);
  const response: Record<string, unknown> = { object: resource, id: publicId };
  const context = { publicId, publicAppUrl };
  for (const [name, field] of Object.entries(fields)) {
    const value = row[name];
    if (value !== null) response[name] = field.serialize(value as never, context);
  }
  return response as RecordResponse<Fields>;
}
