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

/** A response, however it came: headers by their names in lower case. */
export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | number | readonly string[] | undefined>>;
  readonly body: string;
};

/** Throws where an answer is not as described. `name` says which one it is. */
export type ResponseCheck = (name: string, method: string, answer: Answer) => void;

// The package's types describe its CommonJS shape.
export const addFormatsTo = addFormats as unknown as (ajv: Ajv2020, formats: FormatName[]) => void;

/** Turns descriptions of responses into checks; each is to be made once, and used often. */
export function createCompiler(components: Components) {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormatsTo(ajv, ['date-time', 'uri', 'int64']);
  // What a shop stored as an address is shown as it is.
  ajv.addFormat('email', true);
  ajv.addSchema({ $id: 'api', components });
  const compile = (schema: object): ValidateFunction =>
    ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/')));

  return function compileResponse({ headers = {}, content }: DescribedResponse): ResponseCheck {
    const headerChecks = Object.entries(components.headers).map(([name, component]) => {
      const listed = headers[name];
      // A reference has no members of its own.
      const { required = false, schema } = { ...component, ...listed };
      return { name, isListed: listed !== undefined, required, schema, validate: compile(schema) };
    });
    const schema = content?.['application/json']?.schema;
    const validateBody = schema === undefined ? null : compile(schema);
    return (name, method, answer) => {
      for (const check of headerChecks) expectHeader(name, check, answer);
      const type = mediaTypeOf(answer);
      if (content === undefined) expectNoContent(name, answer);
      else if (type !== 'application/json' && type in content) expectRows(name, method, answer);
      else if (validateBody === null) throw new Error(`${name} is of the type ${type}`);
      else expectJson(name, method, validateBody, answer);
    };
  };
}

type HeaderCheck = Required<DescribedHeader> & {
  readonly name: string;
  readonly isListed: boolean;
  readonly validate: ValidateFunction;
};

function expectHeader(name: string, check: HeaderCheck, { headers }: Answer): void {
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

function expectNoContent(name: string, { headers, body }: Answer): void {
  for (const header of ['content-type', 'content-length', 'transfer-encoding']) {
    if (headers[header] !== undefined) throw new Error(`${name} has ${header}`);
  }
  if (body !== '') throw new Error(`${name} has a body`);
}

const mediaTypeOf = ({ headers }: Answer): string =>
  String(headers['content-type']).split(';', 1)[0] ?? '';

/** An answer in a format that no schema describes, as far as its text alone can show. */
function expectRows(name: string, method: string, answer: Answer): void {
  const { body } = answer;
  if (method === 'HEAD') {
    if (body !== '') throw new Error(`${name} has a body`);
    return;
  }
  const type = mediaTypeOf(answer);
  if (type === 'text/csv' && !body.endsWith('\r\n')) throw new Error(`${name} is cut short`);
  if (type !== 'application/x-ndjson') return;
  const lines = body.split('\n');
  if (lines.pop() !== '') throw new Error(`${name} is cut short`);
  for (const line of lines) JSON.parse(line);
}

type Shown = { readonly error?: { readonly type: keyof typeof statusOf; request_id: string } };

function expectJson(
  name: string,
  method: string,
  validate: ValidateFunction,
  { status, headers, body }: Answer,
): void {
  const type = String(headers['content-type']);
  if (!/^application\/json\b/.test(type)) throw new Error(`${name} is of the type ${type}`);
  if (method === 'HEAD') {
    if (body !== '') throw new Error(`${name} has a body`);
    return;
  }
  const parsed: Shown = JSON.parse(body);
  if (!(validate as (shown: Shown) => boolean)(parsed)) {
    throw new Error(`${name} is not as described: ${reasons(validate)}\n${body.slice(0, 2000)}`);
  }
  if (parsed.error === undefined) return;
  // What no schema says: the type is that of the status, and the id that of the header.
  const { type: errorType, request_id: id } = parsed.error;
  if (statusOf[errorType] !== status || id !== headers['request-id'])
    throw new Error(`${name} contradicts itself: ${body}`);
}

const reasons = ({ errors }: ValidateFunction): string =>
  (errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`).join(', ');
