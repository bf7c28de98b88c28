import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify';
import { type AppOptions, createApp } from '../../src/http/app.ts';
import { mcp } from '../../src/mcp/routes.ts';
import { page } from '../../src/page/routes.ts';
import { resources } from '../../src/resources/resources.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { statusOf } from '../http/refusal.ts';
import {
  type Components,
  createCompiler,
  type DescribedResponse,
  type ReceivedResponse,
  type ResponseCheck,
} from './described-response.ts';
import { createRecordedLog } from './logged-lines.ts';

type Description = {
  readonly paths: Record<string, { get: { responses: Record<string, DescribedResponse> } }>;
  readonly components: Components;
};

/** Throws if the response to a request differs from the OpenAPI document. */
export type Check = (method: string, url: string, response: ReceivedResponse) => void;

// Routes that are no operations: the page and its files, the OpenAPI document and its page.
const referencePath =
  /^(\/(openapi\.json|llms\.txt|docs(\/[\w.-]*)?|(app|assets)(\/[\w./-]*)?)?)?$/;

/**
 * Checks responses against the OpenAPI document of the API. A test fails if it receives a status, a
 * header or a body that the document does not describe.
 */
export function createConformance({ paths, components }: Description): Check {
  const compile = createCompiler(components);
  const checks = new Map<DescribedResponse, ResponseCheck>();
  const checkOf = (described: DescribedResponse): ResponseCheck => {
    const check = checks.get(described) ?? compile(described);
    checks.set(described, check);
    return check;
  };

  const operations = Object.entries(paths).map(([path, { get }]) => ({
    pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    isTemplate: path.includes('{'),
    responses: get.responses,
  }));
  // Literal paths take precedence over templates, as in the router.
  operations.sort((a, b) => Number(a.isTemplate) - Number(b.isTemplate));
  const sharedErrors = describeSharedErrors(components);

  return (method, url, response) => {
    const { status, headers } = response;
    const name = `${method} ${url.slice(0, 300)} → ${status}`;
    const path = pathOf(url);
    const isRead = method === 'GET' || method === 'HEAD';
    if (isRead && (status === 200 || status === 304) && referencePath.test(path)) {
      if (headers['request-id'] === undefined) throw new Error(`${name} lacks Request-Id`);
      return;
    }
    if (path === '/mcp' && isMessage(response)) {
      for (const header of ['request-id', 'x-ratelimit-remaining']) {
        if (headers[header] === undefined) throw new Error(`${name} lacks ${header}`);
      }
      return;
    }
    if (method === 'OPTIONS' && status === 204) {
      if (headers['access-control-allow-origin'] === undefined || response.body !== '') {
        throw new Error(`${name} is no response to a preflight`);
      }
      return;
    }
    const operation = isRead ? operations.find(({ pattern }) => pattern.test(path)) : undefined;
    const found =
      operation === undefined ? sharedErrors(path, status) : operation.responses[status];
    const described = found?.$ref === undefined ? found : components.responses[nameIn(found.$ref)];
    if (described === undefined) throw new Error(`${name} is not in the OpenAPI document`);
    checkOf(described)(name, method, response);
  };
}

/**
 * Whether a response is of JSON-RPC, which OpenAPI does not describe, or refuses the method or the encoding. Errors of a request
 * before that are those of other routes.
 */
const isMessage = ({ status, body }: ReceivedResponse): boolean =>
  status === 405 ||
  status === 415 ||
  (status === 202 && body === '') ||
  body.startsWith('{"jsonrpc":"2.0"') ||
  /"jsonrpc":"2.0"[^{}]*}$/.test(body);

const conformances = new Map<string, Check>();

/** The check for the text of a document. Compilation takes longer than most tests, so checks are kept. */
export function conformanceTo(description: string): Check {
  const check = conformances.get(description) ?? createConformance(JSON.parse(description));
  conformances.set(description, check);
  return check;
}

/** The responses to requests without an operation: only errors. */
function describeSharedErrors({ responses, headers }: Components) {
  const errorsUnderV1: Record<number, string> = {
    400: 'InvalidRequest',
    401: 'AuthenticationError',
    403: 'PermissionDenied',
    429: 'RateLimited',
    500: 'InternalError',
  };
  const anyError: DescribedResponse = {
    headers: Object.fromEntries(
      Object.keys(headers).map((name) => [name, { required: name === 'Request-Id' }]),
    ),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  };
  const statuses: readonly number[] = Object.values(statusOf);
  return (path: string, status: number): DescribedResponse | undefined => {
    if (/^\/v1(\/|$)/.test(path)) return responses[errorsUnderV1[status] ?? ''];
    return statuses.includes(status) ? anyError : undefined;
  };
}

const nameIn = (reference: string): string => reference.split('/').at(-1) ?? '';

/** The decoded path of a URL, which may be absolute. */
function pathOf(url: string): string {
  const path = url.replace(/^https?:\/\/[^/]*(?=\/)/, '').split(/[?#]/, 1)[0] ?? '';
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** The text of a response, which may be compressed. */
export function bodyOf({ headers, rawPayload }: LightMyRequestResponse): string {
  return decompressed(rawPayload, headers['content-encoding']);
}

/** The text of a body. Throws if the body does not have the encoding. */
export function decompressed(body: Buffer, encoding: unknown): string {
  if (encoding === undefined || body.length === 0) return body.toString();
  return (encoding === 'br' ? brotliDecompressSync : gunzipSync)(body).toString();
}

/** The API. Checks every response of `app.inject`. */
export function createCheckedApp(
  options: Partial<AppOptions> & Pick<AppOptions, 'services'>,
): FastifyInstance {
  const app = createApp({
    ...readSettings({}),
    // While several tests run, Postgres may take a second to accept a first connection.
    databaseSilenceMs: 30_000,
    resources,
    keyRoutes: mcp,
    keyDatabase: options.services.exportDatabase,
    log: createRecordedLog(),
    ...options,
  });
  app.register(page);
  const inject = app.inject.bind(app) as (
    request: InjectOptions,
  ) => Promise<LightMyRequestResponse>;
  const readConformance = async () =>
    conformanceTo((await inject({ method: 'GET', url: '/openapi.json' })).body);
  // Compiled at the first request, because a test may add routes until then.
  let conformance: Promise<Check> | undefined;
  app.inject = (async (given: InjectOptions | string) => {
    conformance ??= readConformance();
    const check = await conformance;
    const request = typeof given === 'string' ? { url: given } : given;
    const response = await inject(request);
    const { statusCode: status, headers } = response;
    const body = bodyOf(response);
    check(request.method ?? 'GET', String(request.url), { status, headers, body });
    return response;
  }) as FastifyInstance['inject'];
  return app;
}
