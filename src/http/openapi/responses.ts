import { invalidCursorMessage } from '../request/cursor.ts';
import { type ErrorType, errorStatuses } from '../response/errors.ts';

const requestIdExample = 'req_5014d0e4391ad0db0b322feb';

export const errorSchema = {
  type: 'object',
  required: ['error'],
  additionalProperties: false,
  properties: {
    error: {
      type: 'object',
      required: ['type', 'message', 'request_id'],
      additionalProperties: false,
      properties: {
        type: { type: 'string', enum: Object.keys(errorStatuses), description: 'Stable.' },
        message: { type: 'string', description: 'For people.' },
        param: { type: 'string', description: 'The offending parameter.' },
        request_id: { type: 'string', pattern: '^req_[a-f0-9]{24}$' },
      },
    },
    retry_after: {
      type: 'integer',
      format: 'int32',
      minimum: 1,
      description: 'Seconds to wait; with `rate_limited` only.',
    },
  },
};

/** A `required` header is in each response that lists it, except in `headersOfSome`. */
export const headers = {
  'Request-Id': {
    'x-addition': true,
    required: true,
    description: "The request's own id, also in `error.request_id`.",
    schema: { type: 'string', pattern: '^req_[a-f0-9]{24}$', examples: [requestIdExample] },
  },
  'X-RateLimit-Limit': {
    required: true,
    description: 'Requests that the current window allows the key.',
    schema: { type: 'integer', format: 'int32', examples: [600] },
  },
  'X-RateLimit-Remaining': {
    required: true,
    description: 'Requests left in the window.',
    schema: { type: 'integer', format: 'int32', examples: [599] },
  },
  'X-RateLimit-Reset': {
    required: true,
    description: 'When the window ends.',
    schema: { type: 'string', format: 'date-time', examples: ['2026-01-31T14:06:00.000Z'] },
  },
  'Retry-After': {
    required: true,
    description: 'Whole seconds to wait before trying again.',
    schema: { type: 'integer', format: 'int32', minimum: 1, examples: [17] },
  },
  'WWW-Authenticate': {
    required: true,
    description: 'How to authenticate.',
    schema: { type: 'string', const: 'Bearer' },
  },
  ETag: {
    required: true,
    description:
      'Identifies this content; send it back as `If-None-Match`. Weak for a compressed response.',
    schema: {
      type: 'string',
      pattern: '^(W/)?"[^"]+"$',
      examples: ['"5RCGGWF46sITJA6Ht091UAJWaXE"'],
    },
  },
  'X-Data-As-Of': {
    'x-addition': true,
    required: true,
    description: 'The instant of the data in the response. An addition; no part of the ETag.',
    schema: { type: 'string', format: 'date-time', examples: ['2026-01-31T14:05:09.123456Z'] },
  },
  'Content-Disposition': {
    'x-addition': true,
    required: true,
    description: 'The name of the file, with the instant of its data.',
    schema: {
      type: 'string',
      pattern: '^attachment; filename="[\\w.-]+"$',
      examples: ['attachment; filename="purchases-20260131T140509.123456Z.csv"'],
    },
  },
  'X-Has-More': {
    'x-addition': true,
    required: false,
    description:
      'Whether there are more rows than these, for formats other than JSON. An addition.',
    schema: { type: 'string', enum: ['true', 'false'], examples: ['true'] },
  },
  'X-Next-Cursor': {
    'x-addition': true,
    required: false,
    description:
      'The `starting_after` of the next page, also after the last item was deleted; only if ' +
      '`has_more` is `true`. Of changes, the next `cursor`, always. An addition.',
    schema: { type: 'string', examples: ['pur_5Zq7XnTkLw3B.c1767225600000000'] },
  },
  Link: {
    'x-addition': true,
    required: false,
    description:
      'The next page, relative to the URL of the request; only if `has_more` is `true`. An addition.',
    schema: {
      type: 'string',
      pattern: '^<\\?[^<>]+>; rel="next"$',
      examples: ['<?limit=25&starting_after=pur_5Zq7XnTkLw3B.c1767225600000000>; rel="next"'],
    },
  },
} as const;
type Header = keyof typeof headers;

export const headerReferences = (names: readonly Header[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

export const rateLimitHeaders = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
] as const satisfies readonly Header[];

type DocumentedError = {
  readonly description: string;
  readonly example: string;
  readonly param?: string;
  readonly headers: readonly Header[];
  /** Headers that only some of these responses have. */
  readonly headersOfSome?: readonly Header[];
  /** The specification lists this error for no operation. */
  readonly isAddition?: true;
};

/** Section 7. */
const documentedErrors: Readonly<Record<ErrorType, DocumentedError>> = {
  invalid_request: {
    description: 'Invalid route, cursor or request format.',
    example: invalidCursorMessage,
    param: 'starting_after',
    headers: [],
    // A request that is refused before the key check has no limit.
    headersOfSome: rateLimitHeaders,
  },
  authentication_error: {
    description: 'Missing, invalid, expired or revoked key.',
    example: 'A valid API key is required, sent as `Authorization: Bearer <API_KEY>`.',
    headers: ['WWW-Authenticate'],
  },
  permission_denied: {
    description: 'The key lacks the required permission.',
    example: 'The API key lacks the permission read.',
    headers: rateLimitHeaders,
  },
  not_found: {
    description: 'The resource does not exist or belongs to another organization.',
    example: 'There is no such purchase.',
    headers: rateLimitHeaders,
    // Of a single purchase, which may be newer than the data.
    headersOfSome: ['X-Data-As-Of'],
  },
  conflict: {
    description:
      'An addition: the data did not become as fresh as `X-Min-Data-As-Of` requires within the ' +
      'maximum wait; `X-Data-As-Of` is their instant.',
    example:
      'The data are as of 2026-01-31T14:05:09.123456Z and did not become as fresh as ' +
      '2026-01-31T14:05:20.000000Z, which X-Min-Data-As-Of requires, within 5000 ms. Please try again.',
    param: 'X-Min-Data-As-Of',
    headers: [...rateLimitHeaders, 'X-Data-As-Of'],
    isAddition: true,
  },
  validation_error: {
    description: 'A parameter or value failed validation; `param` names it.',
    example: 'limit must be a whole number from 1 to 100.',
    param: 'limit',
    headers: rateLimitHeaders,
  },
  rate_limited: {
    description:
      "The key's request limit is exceeded, the queue of queries is full, a query took too " +
      'long, the maximum number of exports is running, the clients of the key have not read their ' +
      'earlier responses, too many of its requests wait for changes, or too many requests without a ' +
      'valid key came from the address (without ' +
      '`X-RateLimit-*`, which describe a key).',
    example: 'This API key has used its 600 requests of the current minute.',
    headers: ['Retry-After'],
    headersOfSome: rateLimitHeaders,
  },
  internal_error: {
    description: 'Unexpected server error. With `Retry-After` if the operational database is down.',
    example: 'Something went wrong on our side. Please try again.',
    headers: [],
    headersOfSome: [...rateLimitHeaders, 'Retry-After'],
  },
};

/** The name of an error's component: `not_found` becomes `NotFound`. */
const componentOf = (type: string): string =>
  type.replaceAll(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase());

/** The error responses as components, by name. */
export const errorResponses = (): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(documentedErrors).map(([type, error]) => [
      componentOf(type),
      responseOf(type, error),
    ]),
  );

function responseOf(type: string, { description, example, ...rest }: DocumentedError) {
  const headersOfSome = (rest.headersOfSome ?? []).map((header) => [
    header,
    { ...headers[header], required: false },
  ]);
  return {
    description,
    ...(rest.isAddition === true ? { 'x-addition': true } : {}),
    headers: {
      ...headerReferences(['Request-Id', ...rest.headers]),
      ...Object.fromEntries(headersOfSome),
    },
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        example: {
          error: {
            type,
            message: example,
            ...(rest.param === undefined ? {} : { param: rest.param }),
            request_id: requestIdExample,
          },
          ...(type === 'rate_limited' ? { retry_after: 17 } : {}),
        },
      },
    },
  };
}

/** The 409 of the change feed, whose cursor has other causes than the instant of the data. */
export const changesConflict = responseOf('conflict', {
  description:
    'The changes since the cursor are not known, or not any more: begin again with an export. With ' +
    '`Retry-After`, the purchases are not published yet. Or the data did not become as fresh as ' +
    '`X-Min-Data-As-Of` requires.',
  example: 'The changes since this cursor are not known, or not any more.',
  param: 'cursor',
  headers: rateLimitHeaders,
  headersOfSome: ['X-Data-As-Of', 'Retry-After'],
  isAddition: true,
});

/** References to the errors of an operation, by status. */
export function errorReferences(types: readonly ErrorType[]) {
  return Object.fromEntries(
    types.map((type) => [
      errorStatuses[type],
      { $ref: `#/components/responses/${componentOf(type)}` },
    ]),
  );
}
