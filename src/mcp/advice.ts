import type { DescribedParameter } from '../http/openapi/parameters.ts';
import type { ApiError } from '../http/response/errors.ts';
import { ArgumentError } from './arguments.ts';
import { commaListOf, firstSentence } from './input-schema.ts';
import type { Tool } from './tools.ts';

/** What to write instead, for an error of a route; empty if the message says so. */
export function adviseOn(error: ApiError, tool: Tool | undefined): string {
  const { type, param, retryAfter } = error;
  if (error instanceof ArgumentError) return '';
  if (type === 'not_found') return 'Use an id from a list, and no name, number or part of an id.';
  if (retryAfter !== undefined) return `Wait ${retryAfter} s, and call the tool again.`;
  if (type === 'internal_error') return 'Call the tool again later.';
  const parameter = tool?.parameters.find(({ name }) => name === param);
  return parameter === undefined ? '' : howToWrite(parameter);
}

function howToWrite(parameter: DescribedParameter): string {
  const { name, schema, description } = parameter;
  const names = commaListOf(parameter)?.names;
  if (names !== undefined) {
    return `Write ${name} as a list such as ${JSON.stringify(names.slice(0, 1))}.`;
  }
  if (schema.format === 'date-time') {
    return `Write ${name} as an instant with an offset, such as 2026-01-31T00:00:00-03:00.`;
  }
  return `${name}: ${firstSentence(description)}`;
}
