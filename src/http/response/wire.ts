import { z } from 'zod';
import { type IdentifiedResource, idPattern } from '../../domain/public-id.ts';

/**
 * The parts of response schemas. Schemas are documentation, compile to serializers, and type the
 * results of handlers. Integers are bigint, so no cent is lost to a double.
 */

export const integer = () => z.custom<bigint>().meta({ type: 'integer', format: 'int64' });
export const count = () =>
  z.custom<bigint>().meta({ type: 'integer', format: 'int64', minimum: 0 });
/** A sum of extreme amounts may exceed 64 bits. Without a format, many generators choose 32. */
export const sum = integer;
export const dateTime = () => z.string().meta({ format: 'date-time' });
export const publicId = (resource: IdentifiedResource) =>
  z.string().meta({ pattern: idPattern(resource).source });

/** Names a schema in the OpenAPI document. */
export const named = <Schema extends z.ZodType>(title: string, schema: Schema): Schema =>
  schema.meta({ title });

/** The envelope of every list (section 2.13). */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  named(
    `${item.meta()?.title ?? ''}List`,
    z.object({ data: z.array(item), has_more: z.boolean() }),
  );

/** The JSON schema of a response, in the dialect of OpenAPI 3.1. */
export const jsonSchema = (schema: z.ZodType): Record<string, unknown> => convert(schema, () => {});

/** Without `number`, of which the serializer would make a double (exact-numbers.ts). */
export const serializerSchema = (schema: z.ZodType): Record<string, unknown> =>
  convert(schema, (json) => {
    if (json.type === 'number') delete json.type;
  });

function convert(
  schema: z.ZodType,
  change: (json: z.core.JSONSchema.BaseSchema) => void,
): Record<string, unknown> {
  const converted = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io: 'output',
    unrepresentable: 'any',
    override: ({ jsonSchema: json }) => {
      // The serializer is faster for a list of types than for `anyOf`.
      const [first, second] = json.anyOf ?? [];
      if (first?.type !== undefined && second?.type === 'null') {
        delete json.anyOf;
        Object.assign(json, { ...first, type: [first.type, 'null'] });
      }
      change(json);
    },
  });
  delete converted.$schema;
  return converted as Record<string, unknown>;
}
