import { z } from 'zod';
import { type SpreadsheetOptions, spreadsheetOptions } from '../formats/csv.ts';
import { ApiError } from '../response/errors.ts';
import { oneOf, zoneName } from './parameters.ts';
import type { GivenValues } from './read-parameters.ts';

/**
 * `format`, and the options of `csv_excel`, of a route with these formats. A route whose results depend
 * on a time zone replaces `timezone`. Additions: the specification has only JSON.
 */
export const formatParameters = <const Names extends readonly [string, ...string[]]>(
  names: Names,
) => ({
  format: oneOf(names).optional(),
  separator: oneOf(spreadsheetOptions.separator).optional(),
  decimal: oneOf(spreadsheetOptions.decimal).optional(),
  amounts: oneOf(spreadsheetOptions.amounts).optional(),
  timezone: zoneName().optional(),
});

const optionNames = [...Object.keys(spreadsheetOptions), 'timezone'];

/**
 * The options of `csv_excel` that the request gives, with their parsed values; undefined for other
 * formats. Throws if another format has an option that has no effect on it.
 */
export function readSpreadsheetOptions(
  schema: z.ZodType,
  given: GivenValues,
  parsed: Readonly<Record<string, unknown>>,
): SpreadsheetOptions | undefined {
  const names = optionNames.filter((name) => name in given);
  if (parsed.format === 'csv_excel') {
    return Object.fromEntries(names.map((name) => [name, parsed[name]]));
  }
  const isLocal = readsTimeZone(schema, given);
  const param = names.find((name) => name !== 'timezone' || !isLocal);
  if (param === undefined) return undefined;
  const message = `${param} is an option of format=csv_excel: add format=csv_excel, or leave ${param} out.`;
  throw new ApiError('validation_error', message, { param });
}

/** The parameters that matter to a response in JSON. */
export function jsonParameters(schema: z.ZodType): z.ZodObject {
  const { shape } = schema as z.ZodObject;
  const others = ['format', ...optionNames];
  return z.strictObject(
    Object.fromEntries(
      Object.entries(shape).filter(
        ([name]) => !others.includes(name) || (name === 'timezone' && readsTimeZone(schema, shape)),
      ),
    ),
  );
}

/** Whether a time zone matters: to the results of the route, which then has a default, or to filters among `names`. */
const readsTimeZone = (schema: z.ZodType, names: object): boolean =>
  (schema as z.ZodObject).shape.timezone instanceof z.ZodDefault ||
  'weekday' in names ||
  'hour_of_day' in names;
