import type { DescribedParameter } from '../http/openapi/parameters.ts';
import type { ApiError } from '../http/response/errors.ts';
import { listOf } from './input-schema.ts';
import type { Tool } from './tools.ts';

/** What to write instead, for an error of a tool; empty if the message says so. */
export function adviseOn({ type, param, retryAfter }: ApiError, tool: Tool | undefined): string {
  if (type === 'not_found') return 'Use an id from a list, and no name, number or part of an id.';
  if (retryAfter !== undefined) return `Wait ${retryAfter} s, and call the tool again.`;
  if (type === 'internal_error') return 'Call the tool again later.';
  const parameter = tool?.parameters.find(({ name }) => name === param);
  return parameter === undefined ? '' : howToWrite(parameter);
}

function howToWrite(parameter: DescribedParameter): string {
  const { name, schema } = parameter;
  const list = listOf(parameter);
  if (list !== undefined) {
    const example = JSON.stringify(list.names.slice(0, 1));
    return `Write ${name} as a list such as ${example}, of ${list.names.join(', ')}.`;
  }
  if (schema.enum !== undefined) return `Write ${name} as one of ${schema.enum.join(', ')}.`;
  if (schema.format === 'date-time') {
    return `Write ${name} as an instant with an offset, such as 2026-01-31T00:00:00-03:00.`;
  }
  return `${name}: ${parameter.description}`;
}
