import type { z } from 'zod';
import { ApiError } from '../response/errors.ts';
import { withoutWrapper } from './parameters.ts';

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
      : issue?.code === 'invalid_type' && given[param] === undefined
        ? 'is required'
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

/** Whether a parameter may be given several times, which makes its value an array. */
const isRepeatable = (field: z.ZodType): boolean => withoutWrapper(field).meta()?.type === 'array';

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
