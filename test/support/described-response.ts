import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats, { type FormatName } from 'ajv-formats';
import { statusOf } from '../http/refusal.ts';

export type Components = {
  readonly responses: Record<string, DescribedResponse>;
  readonly headers: Record<string, DescribedHeader>;
  readonly schemas: Record<string, object>;
};
export type DescribedResponse = {
  readonly $ref?: string;
  readonly headers?: Record<string, Partial<DescribedHeader>>;
  readonly content?: Record<string, { readonly schema: object }>;
};
type DescribedHeader = {
  readonly required?: boolean;
  readonly schema: { readonly type: string };
};

/** A response of `inject`, `fetch` or a socket. The names of headers are in lower case. */
export type ReceivedResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | number | readonly string[] | undefined>>;
  readonly body: string;
};

/** Throws if a response differs from its description. `name` identifies the response in the error. */
export type ResponseCheck = (name: string, method: string, response: ReceivedResponse) => void;

// The package's types describe its CommonJS shape.
export const addFormatsTo = addFormats as unknown as (ajv: Ajv2020, formats: FormatName[]) => void;

/** Compiles descriptions of responses to checks. Compilation is slow, so callers keep the checks. */
export function createCompiler(components: Components) {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormatsTo(ajv, ['date-time', 'uri', 'int32', 'int64']);
  // The API does not validate stored email addresses.
  ajv.addFormat('email', true);
  ajv.addSchema({ $id: 'api', components });
  const compile = (schema: object): ValidateFunction =>
    ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/')));

  return function compileResponse({ headers = {}, content }: DescribedResponse): ResponseCheck {
    const headerChecks = Object.entries(components.headers).map(([name, component]) => {
      const listed = headers[name];
      // A header that is a `$ref` has neither `required` nor `schema`.
      const { required = false, schema } = { ...component, ...listed };
      return { name, isListed: listed !== undefined, required, schema, validate: compile(schema) };
    });
    const schema = content?.['application/json']?.schema;
    const validateBody = schema === undefined ? null : compile(schema);
    return (name, method, response) => {
      for (const check of headerChecks) expectHeader(name, check, response);
      const type = mediaTypeOf(response);
      if (content === undefined) expectNoContent(name, response);
      else if (type !== 'application/json' && type in content) expectRows(name, method, response);
      else if (validateBody === null) throw new Error(`${name} is of the type ${type}`);
      else expectJson(name, method, validateBody, response);
    };
  };
}

type HeaderCheck = Required<DescribedHeader> & {
  readonly name: string;
  readonly isListed: boolean;
  readonly validate: ValidateFunction;
};

function expectHeader(name: string, check: HeaderCheck, { headers }: ReceivedResponse): void {
  const given = headers[check.name.toLowerCase()];
  if (given === undefined) {
    if (check.isListed && check.required) throw new Error(`${name} lacks ${check.name}`);
    return;
  }
  if (!check.isListed) throw new Error(`${name} has the header ${check.name}`);
  const text = String(given);
  const isNumber = check.schema.type === 'integer' && /^-?\d+$/.test(text);
  if (check.validate(isNumber ? Number(text) : text)) return;
  throw new Error(`${name} has ${check.name}: ${text}; ${reasons(check.validate)}`);
}

function expectNoContent(name: string, { headers, body }: ReceivedResponse): void {
  for (const header of ['content-type', 'content-length', 'transfer-encoding']) {
    if (headers[header] !== undefined) throw new Error(`${name} has ${header}`);
  }
  if (body !== '') throw new Error(`${name} has a body`);
}

const mediaTypeOf = ({ headers }: ReceivedResponse): string =>
  String(headers['content-type']).split(';', 1)[0] ?? '';

/** Checks that CSV and NDJSON are complete. No schema describes their rows. */
function expectRows(name: string, method: string, response: ReceivedResponse): void {
  const { body } = response;
  if (method === 'HEAD') {
    if (body !== '') throw new Error(`${name} has a body`);
    return;
  }
  const type = mediaTypeOf(response);
  if (type === 'text/csv' && !body.endsWith('\r\n')) throw new Error(`${name} is incomplete`);
  if (type !== 'application/x-ndjson') return;
  const lines = body.split('\n');
  if (lines.pop() !== '') throw new Error(`${name} is incomplete`);
  for (const line of lines) JSON.parse(line);
}

type ErrorBody = { readonly error?: { readonly type: keyof typeof statusOf; request_id: string } };

function expectJson(
  name: string,
  method: string,
  validate: ValidateFunction,
  { status, headers, body }: ReceivedResponse,
): void {
  const type = String(headers['content-type']);
  if (!/^application\/json\b/.test(type)) throw new Error(`${name} is of the type ${type}`);
  if (method === 'HEAD') {
    if (body !== '') throw new Error(`${name} has a body`);
    return;
  }
  if (/crm_live_\w{8}/.test(body)) throw new Error(`${name} contains the secret of a key`);
  const parsed: ErrorBody = JSON.parse(body);
  if (!(validate as (body: ErrorBody) => boolean)(parsed)) {
    throw new Error(
      `${name} differs from its description: ${reasons(validate)}\n${body.slice(0, 2000)}`,
    );
  }
  if (parsed.error === undefined) return;
  // The schema does not relate the type to the status, or the id to the header.
  const { type: errorType, request_id: id } = parsed.error;
  if (statusOf[errorType] !== status || id !== headers['request-id'])
    throw new Error(`${name} contradicts itself: ${body}`);
}

const reasons = ({ errors }: ValidateFunction): string =>
  (errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`).join(', ');
