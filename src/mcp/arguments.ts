import { digitsOf, isText } from '../domain/exact-numbers.ts';
import type { DescribedParameter } from '../http/openapi/parameters.ts';
import type { GivenParameters } from '../http/request/api-request.ts';
import { readParameters } from '../http/request/read-parameters.ts';
import { ApiError } from '../http/response/errors.ts';
import type { Route } from '../http/route.ts';
import { commaListOf, firstSentence, kindsOf } from './input-schema.ts';
import { kindArgument, type Tool } from './tools.ts';

/** A call of a route that the arguments of a tool mean. */
export type RouteCall = {
  readonly route: Route;
  readonly given: GivenParameters;
  /** The parsed values of the query. */
  readonly query: Readonly<Record<string, unknown>>;
};

/** Throws ApiError if the route, or the tool alone, refuses an argument. */
export function readArguments(tool: Tool, given: Readonly<Record<string, unknown>>): RouteCall {
  const { [kindArgument]: kind, ...others } =
    kindsOf(tool.routes).length > 0 ? given : { ...given, [kindArgument]: undefined };
  const texts: Record<string, string | readonly string[]> = { ...tool.defaults };
  for (const [name, value] of Object.entries(others)) {
    const parameter = tool.parameters.find((each) => each.name === name);
    if (parameter === undefined) throw unknownArgument(tool, name);
    // Clients send null for what is not given.
    if (value === undefined || value === null) requireNoDefault(tool, name, value);
    else texts[name] = textOf(parameter, value);
  }
  const route = routeOf(tool, kind);
  for (const { name, isRequired, description } of tool.parameters) {
    if (isRequired && texts[name] === undefined) {
      throw refuse(`${name} is missing: ${firstSentence(description)}`, name);
    }
  }
  const pathNames = Object.keys((route.path as unknown as { shape: object }).shape);
  const entries = Object.entries(texts);
  const path = Object.fromEntries(entries.filter(([name]) => pathNames.includes(name)));
  const query = Object.fromEntries(entries.filter(([name]) => !pathNames.includes(name)));
  for (const [name, text] of entries) {
    if (/_(since|until)$/.test(name)) requireOffset(name, String(text));
  }
  const parsed = readParameters(route.query, query) as Readonly<Record<string, unknown>>;
  for (const [lower, upper] of bounds) requireOrder(parsed, lower, upper);
  return { route, given: { path, query }, query: parsed };
}

const bounds = [
  ['created_since', 'created_until'],
  ['min_value_in_cents', 'max_value_in_cents'],
  ['total_orders_min', 'total_orders_max'],
  ['total_spent_min_in_cents', 'total_spent_max_in_cents'],
  ['first_purchase_since', 'first_purchase_until'],
  ['last_purchase_since', 'last_purchase_until'],
] as const;

/** An error whose message says what to write instead. */
export class ArgumentError extends ApiError {
  constructor(message: string, param: string) {
    super('validation_error', message, { param });
  }
}

const refuse = (message: string, param: string) => new ArgumentError(message, param);

function routeOf({ routes }: Tool, kind: unknown): Route {
  const route = routes.get(kind as string | undefined);
  if (route !== undefined) return route;
  const kinds = [...routes.keys()].join(', ');
  throw refuse(`${kindArgument} must be one of ${kinds}.`, kindArgument);
}

function unknownArgument(tool: Tool, name: string): ArgumentError {
  const names = argumentNames(tool);
  const shown = JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name);
  const known = names.length === 0 ? 'It has none.' : `It has ${names.join(', ')}.`;
  return refuse(`The tool ${tool.name} has no argument ${shown}. ${known}`, name);
}

const argumentNames = (tool: Tool): string[] => [
  ...(kindsOf(tool.routes).length > 0 ? [kindArgument] : []),
  ...tool.parameters.map(({ name }) => name),
];

/** Null for an argument with a default may mean all values, none, or the default. */
function requireNoDefault({ defaults }: Tool, name: string, value: null | undefined): void {
  if (value === undefined || defaults[name] === undefined) return;
  throw refuse(
    `${name} is null. Without ${name}, it is ["${defaults[name]}"]. For purchases of every ${name}, set it to ["any"]. For those without one, set it to ["any"] and without to ["${name}"].`,
    name,
  );
}

/** The text of a URL for a JSON value; several for a parameter that may be given several times. */
function textOf(parameter: DescribedParameter, value: unknown): string | readonly string[] {
  const { name, schema } = parameter;
  const values = Array.isArray(value) ? value : [value];
  if (values.length === 0) throw refuse(`${name} is an empty list: leave it out.`, name);
  const texts = values.map((each) => scalarText(name, each));
  if (schema.type === 'array') return texts;
  if (commaListOf(parameter) !== undefined) return texts.join(',');
  const [text = '', another] = texts;
  if (another !== undefined) throw refuse(`${name} takes one value, and no list.`, name);
  return text;
}

function scalarText(name: string, value: unknown): string {
  if (isText(value)) return value;
  if (typeof value === 'string' || typeof value === 'number') return digitsOf(value);
  if (typeof value === 'boolean') return String(value);
  throw refuse(`${name} must be a text, a number, true or false, or a list of texts.`, name);
}

/** An instant without an offset would be UTC, whatever the time zone of the request is. */
function requireOffset(name: string, text: string): void {
  const local = /^\d{4}-\d\d-\d\d(T[\d:.]+)?$/i.exec(text);
  if (local === null) return;
  const instant = local[1] === undefined ? `${text}T00:00:00` : text;
  throw refuse(
    `${name} has no offset. Write ${instant}-03:00 with the offset of the shop, or ${instant}Z for UTC.`,
    name,
  );
}

function requireOrder(query: RouteCall['query'], lower: string, upper: string): void {
  const [min, max] = [query[lower], query[upper]] as (bigint | undefined)[];
  if (min === undefined || max === undefined || min <= max) return;
  throw refuse(`${lower} is beyond ${upper}: swap them.`, lower);
}
