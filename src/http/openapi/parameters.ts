import type { z } from 'zod';
import { parameterDescriptions } from './descriptions.ts';
import type { JsonSchema } from './examples.ts';

export type DescribedParameter = {
  readonly name: string;
  /** The first sentence says what the parameter is. */
  readonly description: string;
  readonly isRequired: boolean;
  readonly schema: JsonSchema;
  readonly field: z.ZodType;
};

/** The parameters of a route's path or query, from the schema that validates them. */
export function describeParameters(schema: z.ZodType): DescribedParameter[] {
  const fields = (schema as z.ZodObject).shape as Record<string, z.ZodType>;
  return Object.entries(fields).map(([name, field]) => {
    const { description: own, ...schema } = metadataOf(field);
    const description = own ?? parameterDescriptions[name];
    if (description === undefined) throw new Error(`the parameter ${name} is not described`);
    return { name, description, isRequired: !field.safeParse(undefined).success, schema, field };
  });
}

/** The metadata of a field, and of the kind that it may wrap. */
function metadataOf(field: z.ZodType): JsonSchema & { readonly description?: string } {
  const { innerType } = field.def as { innerType?: z.ZodType };
  const inner = innerType === undefined ? {} : metadataOf(innerType);
  return { ...inner, ...field.meta() } as JsonSchema;
}
