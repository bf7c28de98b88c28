import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats, { type FormatName } from 'ajv-formats';
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify';

type Described = {
  readonly paths: Record<string, { get: { responses: Record<string, DescribedResponse> } }>;
  readonly components: {
    readonly responses: Record<string, DescribedResponse>;
    readonly schemas: Record<string, object>;
  };
};
type DescribedResponse = {
  readonly $ref?: string;
  readonly headers?: Record<string, unknown>;
  readonly content?: Record<string, { readonly schema: object }>;
};

/**
 * Holds responses to the API's own description: a status, a header or a body that
 * is not described as it is fails the test that saw it.
 */
export function createConformance(description: Described) {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  // Not `email`: what a shop stored as an address is shown as it is.
  addFormatsTo(ajv, ['date-time', 'uri', 'int64']);
  ajv.addSchema({ $id: 'api', components: description.components });
  const paths = Object.entries(description.paths).map(([path, { get }]) => ({
    pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    isTemplate: path.includes('{'),
    responses: get.responses,
  }));
  // Literal paths win over templates, as they do in the router.
  paths.sort((a, b) => Number(a.isTemplate) - Number(b.isTemplate));

  const validators = new Map<object, ValidateFunction>();
  const compile = (schema: object): ValidateFunction =>
    ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/')));

  return function check(method: string, url: string, response: LightMyRequestResponse): void {
    const path = url.split('?', 1)[0] ?? '';
    if (!path.startsWith('/v1')) return;
    const described = paths.find(({ pattern }) => pattern.test(path));
    const isKnown = described !== undefined && (method === 'GET' || method === 'HEAD');
    const found = isKnown
      ? described.responses[response.statusCode]
      : undescribed(description, response.statusCode);
    const name = `${method} ${url} → ${response.statusCode}`;
    if (found === undefined) throw new Error(`${name} is not in the API's description`);
    const resolved =
      found.$ref === undefined
        ? found
        : description.components.responses[found.$ref.split('/').at(-1) ?? ''];
    checkHeaders(name, resolved, response);
    checkBody(name, method, resolved, response);
  };

  function checkHeaders(
    name: string,
    described: DescribedResponse | undefined,
    response: LightMyRequestResponse,
  ): void {
    const always = Object.keys(described?.headers ?? {});
    for (const header of always) {
      // An error met before the key is known has no limit to tell of.
      if (header.startsWith('X-RateLimit') && response.statusCode === 400) continue;
      if (response.headers[header.toLowerCase()] === undefined) {
        throw new Error(`${name} lacks the header ${header}`);
      }
    }
  }

  function checkBody(
    name: string,
    method: string,
    described: DescribedResponse | undefined,
    response: LightMyRequestResponse,
  ): void {
    const schema = described?.content?.['application/json']?.schema;
    if (schema === undefined || method === 'HEAD') {
      if (response.body !== '') throw new Error(`${name} has a body`);
      return;
    }
    const validate = validators.get(schema) ?? compile(schema);
    validators.set(schema, validate);
    if (!validate(JSON.parse(response.body))) {
      throw new Error(
        `${name} is not as described: ${ajv.errorsText(validate.errors)}\n${response.body}`,
      );
    }
  }
}

// The package's types describe its CommonJS shape.
export const addFormatsTo = addFormats as unknown as (ajv: Ajv2020, formats: FormatName[]) => void;

/** Where there is no operation, only errors can be met. */
function undescribed(description: Described, status: number): DescribedResponse | undefined {
  const names: Record<number, string> = {
    400: 'InvalidRequest',
    401: 'AuthenticationError',
    403: 'PermissionDenied',
    429: 'RateLimited',
    500: 'InternalError',
  };
  return description.components.responses[names[status] ?? ''];
}

/** Checks every response that a test gets through `app.inject`. */
export async function checkResponses<App extends FastifyInstance>(app: App): Promise<App> {
  await app.ready();
  const inject = app.inject.bind(app) as (
    options: InjectOptions,
  ) => Promise<LightMyRequestResponse>;
  const description = await inject({ method: 'GET', url: '/openapi.json' });
  const check = createConformance(description.json());
  app.inject = (async (options: InjectOptions | string) => {
    const asked = typeof options === 'string' ? { url: options } : options;
    const response = await inject(asked);
    check(asked.method ?? 'GET', String(asked.url), response);
    return response;
  }) as App['inject'];
  return app;
}
