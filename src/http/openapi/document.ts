import type { z } from 'zod';
import type { FormatDescription } from '../formats/format.ts';
import { exportFormatNames, formatNames, formats } from '../formats/negotiation.ts';
import { minimumAsOfHeader } from '../request/minimum-freshness.ts';
import { jsonSchema } from '../response/wire.ts';
import { hasEtag, hasMinimumFreshness, isList, type Route } from '../route.ts';
import { probes } from '../server/health.ts';
import {
  additionalParameters,
  introduction,
  parameterDescriptions,
  tagDescriptions,
} from './descriptions.ts';
import { exampleOf, type JsonSchema } from './examples.ts';
import { describeParameters } from './parameters.ts';
import {
  changesConflict,
  errorReferences,
  errorResponses,
  errorSchema,
  headerReferences,
  headers,
  rateLimitHeaders,
} from './responses.ts';

const addition = 'An addition to the specification.';

/** The version of the interface (section 9), not of this software. */
const version = '1.0.0';

/** The OpenAPI 3.1 document, from the schemas that validate parameters and serialize responses. */
export function describeApi(routes: readonly Route[]) {
  const schemas: Record<string, unknown> = { Error: errorSchema };
  const paths = Object.fromEntries([
    ...routes.map((route) => [
      `/v1${route.url.replaceAll(/:(\w+)/g, '{$1}')}`,
      { get: operation(route, schemas) },
    ]),
    ...Object.entries(probes).map(([url, probe]) => [url, { get: probeOperation(url, probe) }]),
  ]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'CRM, purchase and marketing data',
      version,
      description: introduction,
      contact: { name: 'The operator of this server' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'This server' }],
    security: [{ apiKey: [] }],
    tags: Object.entries(tagDescriptions).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key of the organization, with the scope `read`.',
        },
      },
      schemas,
      headers,
      responses: errorResponses(),
    },
  };
}

function operation(route: Route, schemas: Record<string, unknown>) {
  const { url, summary, description, path, query, response, kind, isAddition } = route;
  const schema = jsonSchema(response) as JsonSchema;
  const tag = tagOf(url);
  const isConditional = hasEtag(route);
  return {
    operationId: operationIdOf(url),
    summary,
    description: isAddition === true ? `${description}\n\n${addition}` : description,
    ...(isAddition === true ? { 'x-addition': true } : {}),
    tags: [tag],
    parameters: [
      ...parametersOf(path, 'path'),
      ...parametersOf(query, 'query'),
      ...(isConditional ? [ifNoneMatch] : []),
      ...(hasMinimumFreshness(route) ? [minimumAsOf] : []),
    ],
    responses: {
      200: {
        description: summary,
        headers: headersOf(route),
        content:
          kind === 'export'
            ? contentsOf(
                exportFormatNames.map((name) => formats[name]),
                'binary',
              )
            : {
                'application/json': { schema: hoist(schema, schemas), example: exampleOf(schema) },
                ...(hasTable(route) ? contentsOf(otherFormats) : {}),
              },
      },
      ...(isConditional ? { 304: { description: 'Unchanged.', headers: headersOf(route) } } : {}),
      ...errorReferences([
        'invalid_request',
        'authentication_error',
        'permission_denied',
        ...(url.includes(':') ? (['not_found'] as const) : []),
        ...(hasMinimumFreshness(route) ? (['conflict'] as const) : []),
        'validation_error',
        'rate_limited',
        'internal_error',
      ]),
      ...(kind === 'feed' ? { 409: changesConflict } : {}),
    },
  };
}

function probeOperation(url: string, { summary, responses }: (typeof probes)[keyof typeof probes]) {
  const probeResponses = Object.entries(responses).map(([status, response]) => {
    const schema = jsonSchema(response) as JsonSchema;
    const described = {
      description: status === '200' ? 'Yes.' : 'No.',
      headers: headerReferences(['Request-Id']),
      content: { 'application/json': { schema, example: exampleOf(schema) } },
    };
    return [status, described];
  });
  return {
    operationId: operationIdOf(url),
    summary,
    description: addition,
    'x-addition': true,
    tags: ['Health'],
    security: [],
    parameters: [],
    responses: { ...Object.fromEntries(probeResponses), ...errorReferences(['invalid_request']) },
  };
}

// Swagger UI sends a parameter's `example` as its value. Conditional headers change the
// response, so their examples are in the descriptions.
const ifNoneMatch = {
  name: 'If-None-Match',
  in: 'header',
  description:
    'ETags of content that the client has: a list such as `"5RCGGWF46sITJA6Ht091UAJWaXE"`, or `*`.',
  schema: { type: 'string' },
};

const minimumAsOf = {
  name: minimumAsOfHeader,
  in: 'header',
  description: parameterDescriptions[minimumAsOfHeader],
  'x-addition': true,
  schema: { type: 'string', format: 'date-time' },
};

const hasTable = (route: Route): boolean => 'table' in route && route.table !== undefined;

const otherFormats = formatNames.flatMap((name) => (name === 'json' ? [] : [formats[name]]));

/** The content of the formats besides JSON. Generated clients keep the bytes of `binary`, and decode others as text. */
function contentsOf(of: readonly FormatDescription[], format?: 'binary') {
  return Object.fromEntries(
    of.map((described) => {
      const isBinary = format === 'binary' || described === formats.arrow;
      const schema = { type: 'string', ...(isBinary ? { format: 'binary' } : {}) };
      return [described.mediaType, { schema, 'x-addition': true }];
    }),
  );
}

function headersOf(route: Route) {
  return headerReferences([
    'Request-Id',
    ...rateLimitHeaders,
    ...(hasEtag(route) ? (['ETag'] as const) : []),
    ...(route.kind !== undefined || route.showsInstant === true ? (['X-Data-As-Of'] as const) : []),
    ...(hasTable(route) ? (['X-Has-More'] as const) : []),
    ...(isList(route) ? (['X-Next-Cursor', 'Link'] as const) : []),
    ...(route.kind === 'feed' ? (['X-Next-Cursor'] as const) : []),
    ...(route.kind === 'export' ? (['Content-Disposition'] as const) : []),
  ]);
}

function parametersOf(schema: z.ZodType, location: 'path' | 'query') {
  return describeParameters(schema).map(({ name, description, isRequired, schema }) => ({
    name,
    in: location,
    required: isRequired,
    description,
    ...(additionalParameters.has(name) ? { 'x-addition': true } : {}),
    ...(schema.type === 'array' ? { style: 'form', explode: true } : {}),
    schema,
    ...(location === 'path' ? { example: exampleOf(schema, name) } : {}),
  }));
}

/** Moves schemas with a title to the components, and references them. */
function hoist(schema: JsonSchema, schemas: Record<string, unknown>): unknown {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    if (typeof value?.title !== 'string') return value;
    schemas[value.title] = value;
    return { $ref: `#/components/schemas/${value.title}` };
  });
}

const segmentsOf = (url: string): string[] => url.split('/').slice(1);

function tagOf(url: string): string {
  const [first = ''] = segmentsOf(url);
  if (first === 'me') return 'Identity';
  const words = first.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** `/customers/:customer_id/purchases` becomes `getCustomersCustomerIdPurchases`. */
function operationIdOf(url: string): string {
  const words = url.split(/[^a-z]+/).filter((word) => word !== '');
  return `get${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}`;
}
