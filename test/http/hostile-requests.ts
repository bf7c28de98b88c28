import fc from 'fast-check';
import type { IdentifiedResource } from '../../src/domain/public-id.ts';

/**
 * Requests as nobody in his right mind sends them, and among them enough that are
 * nearly right to get past the first check and deep into a route.
 */

export const keyKinds = ['own', 'other', 'writer', 'revoked', 'wrong', 'none'] as const;
export type KeyKind = (typeof keyKinds)[number];

/** A request that an HTTP client can send. */
export type ClientRequest = {
  readonly kind: 'client';
  readonly method: string;
  readonly url: string;
  readonly key: KeyKind;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: string | null;
};

/** Bytes that no HTTP client sends; one character a byte. */
export type RawRequest = {
  readonly kind: 'raw';
  readonly key: KeyKind;
  readonly bytes: string;
};

export type HostileRequest = ClientRequest | RawRequest;

/** Where a raw request takes its key from. */
export const keyPlaceholder = '{key}';

type Ids = Readonly<Record<IdentifiedResource, readonly string[]>>;

const page = ['limit', 'starting_after'];
const purchaseFilters = [
  ...['status', 'platform', 'created_since', 'created_until'],
  ...['min_value_in_cents', 'max_value_in_cents'],
];
const tracking = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'];
const sorted = [...page, 'sort'];

type Template = {
  /** Segments in braces are ids of that resource. */
  readonly path: string;
  readonly resource: IdentifiedResource;
  readonly parameters: readonly string[];
};
const templates: readonly Template[] = [
  { path: '/v1/me', resource: 'api_key', parameters: [] },
  {
    path: '/v1/customers',
    resource: 'customer',
    parameters: [
      ...[...sorted, 'is_subscribed', 'updated_since', 'created_since', 'created_until'],
      ...['email', 'phone', 'tag_id', 'segment_id', 'q'],
    ],
  },
  { path: '/v1/customers/{customer}', resource: 'customer', parameters: [] },
  {
    path: '/v1/customers/{customer}/purchases',
    resource: 'purchase',
    parameters: [...page, ...purchaseFilters],
  },
  { path: '/v1/segments', resource: 'segment', parameters: [...sorted, 'q'] },
  { path: '/v1/segments/{segment}', resource: 'segment', parameters: [] },
  { path: '/v1/segments/{segment}/customers', resource: 'customer', parameters: sorted },
  {
    path: '/v1/purchases',
    resource: 'purchase',
    parameters: [...page, ...purchaseFilters, 'customer_id'],
  },
  { path: '/v1/purchases/{purchase}', resource: 'purchase', parameters: [] },
  {
    path: '/v1/purchases/stats',
    resource: 'purchase',
    parameters: [...purchaseFilters, 'customer_id', ...tracking, 'group_by', 'group_limit'],
  },
  { path: '/v1/tags', resource: 'tag', parameters: page },
  { path: '/v1/tags/{tag}', resource: 'tag', parameters: [] },
  { path: '/v1/attributes', resource: 'attribute', parameters: page },
  { path: '/v1/flows', resource: 'flow', parameters: sorted },
  { path: '/v1/flows/{flow}', resource: 'flow', parameters: [] },
  { path: '/v1/email-campaigns', resource: 'email_campaign', parameters: sorted },
  { path: '/v1/email-campaigns/{email_campaign}', resource: 'email_campaign', parameters: [] },
  { path: '/v1/template-campaigns', resource: 'template_campaign', parameters: sorted },
  {
    path: '/v1/template-campaigns/{template_campaign}',
    resource: 'template_campaign',
    parameters: [],
  },
  // Beyond the specification, and nothing at all.
  { path: '/v1/purchases/export', resource: 'purchase', parameters: purchaseFilters },
  { path: '/v1/customers/export', resource: 'customer', parameters: [] },
  { path: '/v1/nothing/{customer}', resource: 'customer', parameters: [] },
  { path: '/healthz', resource: 'tag', parameters: [] },
  { path: '/readyz', resource: 'tag', parameters: [] },
  { path: '/metrics', resource: 'tag', parameters: [] },
  { path: '/docs', resource: 'tag', parameters: [] },
  { path: '/docs/{tag}', resource: 'tag', parameters: [] },
  { path: '/openapi.json', resource: 'tag', parameters: [] },
];
const allParameters = [...new Set(templates.flatMap(({ parameters }) => parameters))];

const oddTexts = [
  ...['', ' ', '\0', 'a\0b', '\t\n', '\r\nX-Injected: 1', '%', '%%', '%0', '_', '\\', "'", '"'],
  ...["' or 1=1 --", "'; drop table purchases; --", '") or ("1"="1', "\\'; select pg_sleep(9)--"],
  ...['$1', '$$', '{{7*7}}', `\${process.exit()}`, '../../../etc/passwd', '..\\..\\', 'file:///'],
  ...['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toString', 'toJSON', 'then'],
  ...['null', 'undefined', 'NaN', 'true', 'false', '[]', '{}', '[object Object]', '*', '?', '#'],
  ...['é', 'e\u0301', '夏', '🛒', '\u202e', '\ufeff', '\ufffd', '\u2028', 'ﬀ', 'İ', 'ß', '\u0000é'],
  ...['<script>alert(1)</script>', 'a'.repeat(256), 'a'.repeat(257), '🛒'.repeat(257)],
  ...['a'.repeat(4000), '%'.repeat(300), '_'.repeat(300), '\\'.repeat(300), "'".repeat(300)],
] as const;
const numbers = [
  ...['0', '1', '2', '10', '25', '50', '99', '100', '101', '-1', '-0', '007', '1.5', '1e3', '0x10'],
  ...['2147483647', '2147483648', '9007199254740993', '9223372036854775807'],
  ...['9223372036854775808', '1e400', 'Infinity', '9'.repeat(400), '٣', '１'],
] as const;
const instants = [
  ...['2026-01-05T00:00:00Z', '2026-01-05T00:00:00.000001Z', '2026-01-05T12:00:00-03:00'],
  ...['2026-01-05T00:00:00+14:00', '0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999999Z'],
  ...['0000-01-01T00:00:00Z', '10000-01-01T00:00:00Z', '2026-02-30T00:00:00Z', '2026-01-05'],
  ...['infinity', '-infinity', 'now', 'epoch', '1767225600', '2026-01-05T24:00:00Z'],
  ...['2026-01-05T00:00:60Z', '-2026-01-05T00:00:00Z', '2026-01-05T00:00:00.0000000001Z'],
] as const;
/** Percent-encodings of nothing: lone surrogates, overlong forms, halves. */
const brokenEncodings = [
  ...['%', '%Z', '%ZZ', '%0', '%FF', '%C0%AF', '%ED%A0%80', '%ED%BF%BF', '%E0%A4%A', '%u0041'],
  ...['%F4%90%80%80', '%00', '%0D%0A', '%2525', '%252F', '%2F', '%5C', '%2e%2e', '+', '\xe9'],
] as const;

const oddText = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...oddTexts) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 40 }) },
  { weight: 1, arbitrary: fc.constantFrom(...numbers, ...instants) },
);
const encodedText = fc.oneof(
  { weight: 8, arbitrary: oddText.map(encodeURIComponent) },
  { weight: 1, arbitrary: fc.constantFrom(...brokenEncodings) },
);

/** Ids: the caller's, the other organization's, nobody's, of another kind, of none. */
function idOf(resource: IdentifiedResource, own: Ids, other: Ids): fc.Arbitrary<string> {
  const prefix = (own[resource][0] as string).slice(0, 4);
  const invented = fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/).map((body) => prefix + body);
  return fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...own[resource]) },
    { weight: 4, arbitrary: fc.constantFrom(...other[resource]) },
    { weight: 2, arbitrary: invented },
    { weight: 1, arbitrary: fc.constantFrom(...Object.values(own).flat()) },
    { weight: 1, arbitrary: fc.constantFrom(prefix, `${prefix}%00`, prefix.toUpperCase()) },
    { weight: 1, arbitrary: fc.constant(`${prefix}${'a'.repeat(3000)}`) },
    { weight: 1, arbitrary: encodedText },
  );
}

/** A value that a parameter may well take; text parameters take anything. */
function parameterValue(
  name: string,
  resource: IdentifiedResource,
  own: Ids,
  other: Ids,
): fc.Arbitrary<string> {
  const plausible = (...values: readonly string[]) =>
    fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(...values).map(encodeURIComponent) },
      { weight: 1, arbitrary: encodedText },
    );
  switch (name) {
    case 'limit':
    case 'group_limit':
      return plausible('1', '2', '7', '25', '50', ...numbers);
    case 'min_value_in_cents':
    case 'max_value_in_cents':
      return plausible('0', '500', '1000', ...numbers);
    case 'starting_after':
      return idOf(resource, own, other);
    case 'customer_id':
      return idOf('customer', own, other);
    case 'tag_id':
      return idOf('tag', own, other);
    case 'segment_id':
      return idOf('segment', own, other);
    case 'created_since':
    case 'created_until':
    case 'updated_since':
      return plausible('2026-01-03T00:00:00Z', ...instants);
    case 'status':
      return plausible('any', 'paid', 'pending', 'voided', 'open');
    case 'platform':
      return plausible('popup', 'shopify', 'bling', 'any');
    case 'group_by':
      return plausible('status', 'platform', 'currency', 'day', ...tracking);
    case 'sort':
      return plausible('updated', 'total_spent');
    case 'is_subscribed':
      return plausible('true', 'false');
    case 'phone':
      return plausible('11900000001', '+55 (11)', '001', '%%%', '1'.repeat(33));
    default:
      return encodedText;
  }
}

function requestUrl(own: Ids, other: Ids): fc.Arbitrary<string> {
  const parametersOf = ({ parameters, resource }: Template): fc.Arbitrary<string> => {
    const pair = (name: string) =>
      parameterValue(name, resource, own, other).map((value) => `${name}=${value}`);
    const hostilePair = fc.oneof(
      fc.constantFrom(...allParameters).chain(pair),
      fc.tuple(encodedText, encodedText).map(([name, value]) => `${name}=${value}`),
      encodedText,
      fc.constant('&'),
    );
    const hostile = fc.array(hostilePair, { maxLength: 4 });
    if (parameters.length === 0) {
      return fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, hostile).map(joined);
    }
    // Each parameter once: strict reading refuses a second one at once.
    const right = fc
      .uniqueArray(fc.constantFrom(...parameters), { maxLength: 4 })
      .chain((names) => fc.tuple(...names.map(pair)));
    return fc.oneof({ weight: 5, arbitrary: right }, { weight: 1, arbitrary: hostile }).map(joined);
  };
  const pathOf = ({ path }: Template): fc.Arbitrary<string> => {
    const parts = path.split('/').map((part) => {
      const resource = /^\{(\w+)\}$/.exec(part)?.[1] as IdentifiedResource | undefined;
      return resource === undefined ? fc.constant(part) : idOf(resource, own, other);
    });
    return fc.tuple(...parts).map((segments) => segments.join('/'));
  };
  const known = fc
    .constantFrom(...templates)
    .chain((template) => fc.tuple(pathOf(template), parametersOf(template)))
    .map(([path, query]) => path + query);
  const ending = fc.constantFrom(
    ...['/', '//', '/..', '/../me', '%2F', ';a=1', '.json', '%00', '/%ZZ', '?', '??', '#a', '/~'],
  );
  const unknown = fc
    .array(encodedText, { minLength: 1, maxLength: 4 })
    .map((segments) => `/v1/${segments.join('/')}`);
  const odd = fc.constantFrom(
    ...[
      '/',
      '//',
      '//v1/me',
      '/v1',
      '/v1/',
      '/v1?',
      '/V1/me',
      '/%761/me',
      '/v1/%6de',
      '*',
      '/v2/me',
    ],
    ...['/v1//me', '/v1/./me', '/v1/../v1/me', '/healthz/../v1/me', '/v1/me/', '/v1/me%20'],
    ...['http://127.0.0.1/v1/me', 'http://[/v1/me', 'http://x/v1/%ZZ', '?', '/docs/../v1/me'],
    ...['/docs/../../package.json', '/docs/%2e%2e%2f%2e%2e%2fpackage.json', '/docs/..%5c..%5cx'],
    `/v1/${'a/'.repeat(3000)}`,
    `/v1/purchases/pur_${'a'.repeat(12_000)}`,
    `/v1/purchases?${'limit=1&'.repeat(1500)}`,
    `/v1/purchases?utm_source=${'%F0%9F%9B%92'.repeat(1000)}`,
    `/v1/customers?q=${'a'.repeat(14_000)}`,
    `/v1/me?${'a'.repeat(20_000)}`,
  );
  return fc
    .oneof(
      { weight: 16, arbitrary: known },
      { weight: 1, arbitrary: fc.tuple(known, ending).map(([url, end]) => url + end) },
      { weight: 1, arbitrary: unknown },
      { weight: 1, arbitrary: odd },
    )
    .map(sendable);
}

const joined = (pairs: readonly string[]): string =>
  pairs.length === 0 ? '' : `?${pairs.join('&')}`;

/** Without what Node's client refuses to send; raw requests send that. */
const sendable = (url: string): string => url.replaceAll(/[^\x21-\xff]/g, '_');

const headerValue = fc.oneof(
  fc.constantFrom(
    ...['', '*', '"', '""', 'W/', 'W/"', '"a", "b"', '*, *', '"*"', ',,,', '"\xe9"', ';q=', '*/*'],
    ...['text/csv', 'application/json;q=0', 'application/vnd.apache.arrow.stream', 'gzip;q=1.1'],
    ...['br, gzip, zstd', 'identity;q=0', '"'.repeat(4000), '", '.repeat(1500), 'x'.repeat(6000)],
    ...['req_0123456789abcdef01234567', 'bytes=0-1', 'DELETE', '127.0.0.1', 'chunked'],
  ),
  // What a header may hold: printable characters, tabs and high bytes.
  fc.string({
    unit: fc.constantFrom(...'az09 \t"\'\\,;=*/()<>@[]?{}%$#!~^|\x80\xe9\xff'),
    maxLength: 60,
  }),
);
const headerName = fc.constantFrom(
  ...['if-none-match', 'if-none-match', 'accept', 'accept', 'accept-encoding', 'accept-language'],
  ...['if-match', 'if-modified-since', 'range', 'cookie', 'origin', 'referer', 'user-agent'],
  ...[
    'x-request-id',
    'request-id',
    'x-forwarded-for',
    'x-forwarded-host',
    'forwarded',
    'x-real-ip',
  ],
  ...['x-http-method-override', 'x-organization-id', 'host', 'content-type', '__proto__', 'te'],
  ...['x-original-url', 'x-rewrite-url', 'access-control-request-method', 'upgrade', 'via'],
);
const headers = fc.oneof(
  { weight: 16, arbitrary: fc.constant<Record<string, string>>({}) },
  { weight: 2, arbitrary: fc.constant<Record<string, string>>({ 'if-none-match': '*' }) },
  {
    weight: 8,
    arbitrary: fc.dictionary(headerName, headerValue, { maxKeys: 3, noNullPrototype: true }),
  },
);
const key = fc.oneof(
  { weight: 12, arbitrary: fc.constant<KeyKind>('own') },
  { weight: 3, arbitrary: fc.constant<KeyKind>('other') },
  { weight: 2, arbitrary: fc.constantFrom(...keyKinds) },
);
const oddAuthorization = fc.oneof(
  headerValue,
  fc.constantFrom(
    'Bearer',
    'Bearer ',
    'bearer \t',
    'Basic Og==',
    `Bearer crm_live_${'a'.repeat(42)}`,
  ),
  headerValue.map((value) => `Bearer ${value}`),
);
const oddMethod = fc.constantFrom(
  ...[
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'TRACE',
    'PROPFIND',
    'SEARCH',
    'PURGE',
    'M-SEARCH',
  ],
  ...['get', 'FETCH', 'BREW', 'X'.repeat(100)],
);
const body = fc.constantFrom(
  ...[
    '',
    'a',
    '{}',
    '{',
    '{"__proto__":{"a":1}}',
    'limit=1',
    '\0\0\0',
    'GET /v1/me HTTP/1.1\r\n\r\n',
  ],
  'a'.repeat(60_000),
);

/** Once in fifteen times. */
function rarely<Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | null> {
  return fc.oneof({ weight: 14, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });
}

function clientRequest(own: Ids, other: Ids): fc.Arbitrary<ClientRequest> {
  const method = fc.oneof(
    { weight: 16, arbitrary: fc.constant('GET') },
    { weight: 2, arbitrary: fc.constant('HEAD') },
    { weight: 1, arbitrary: oddMethod },
  );
  return fc
    .record({
      method,
      url: requestUrl(own, other),
      key,
      headers,
      authorization: rarely(oddAuthorization),
      body: rarely(body),
    })
    .map(({ authorization, ...request }) => ({
      kind: 'client',
      ...request,
      // Only where it is not to be that of a key.
      ...(authorization === null || request.key === 'own' || request.key === 'other'
        ? {}
        : { headers: { ...request.headers, authorization } }),
    }));
}

/** Requests that are broken in their very bytes: what a client library would never let through. */
function rawRequest(own: Ids, other: Ids): fc.Arbitrary<RawRequest> {
  const line = fc.oneof(
    requestUrl(own, other).map((url) => `GET ${url} HTTP/1.1`),
    fc.constantFrom(
      ...['GET /v1/me', 'GET /v1/me HTTP/1.0', 'GET /v1/me HTTP/7.3', 'GET  /v1/me HTTP/1.1'],
      ...['GET /v1/me?a=\x00 HTTP/1.1', 'GET /v1/me?a=\x7f\x01 HTTP/1.1', 'PRI * HTTP/2.0'],
      ...['GET /v1/m\xed\xa0\x80 HTTP/1.1', 'CONNECT 127.0.0.1:5432 HTTP/1.1', '\x16\x03\x01\x02'],
      ...['GET v1/me HTTP/1.1', 'GET http://x:y@/v1/me HTTP/1.1', ' GET /v1/me HTTP/1.1', ''],
    ),
  );
  const field = fc.oneof(
    fc.tuple(headerName, headerValue).map(([name, value]) => `${name}: ${value}`),
    fc.constantFrom(
      ...[
        'no colon',
        ': no name',
        'Host',
        'Host: a\r\nHost: b',
        'X: a\x00b',
        'X: a\rb',
        'X\x00: a',
      ],
      ...['Content-Length: 5', 'Content-Length: -1', 'Content-Length: 99999999999999999999'],
      ...['Content-Length: 1\r\nContent-Length: 2', 'Transfer-Encoding: chunked'],
      ...['Transfer-Encoding: chunked\r\nContent-Length: 3', 'Transfer-Encoding: xchunked'],
      ...['Expect: 100-continue', 'Expect: the-unexpected', 'Upgrade: h2c', 'Upgrade: websocket'],
      ...['Connection: upgrade', 'Connection: close, keep-alive', ' folded: line', 'Trailer: X'],
      ...['Authorization: Bearer a\r\nAuthorization: Bearer b', 'If-None-Match: \xff\xfe'],
      `X: ${'a'.repeat(20_000)}`,
      'X: a\r\n'.repeat(2500),
    ),
  );
  const rest = fc.constantFrom(
    '',
    '',
    '5\r\nhello\r\n0\r\n\r\n',
    'zz\r\n',
    'GARBAGE',
    '\0'.repeat(99),
  );
  const request = fc
    .tuple(line, fc.array(field, { maxLength: 3 }), rest)
    .map(([start, fields, after]) =>
      [start, 'Host: test', keyPlaceholder, ...fields, 'Connection: close', '', after].join('\r\n'),
    );
  const bytes = fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
    maxLength: 200,
  });
  const cut = fc
    .tuple(request, fc.double({ min: 0, max: 1, noNaN: true }))
    .map(([whole, part]) => whole.slice(0, Math.floor(whole.length * part)));
  const twice = fc.tuple(request, request).map(([one, two]) => one + two);
  return fc.record({
    kind: fc.constant('raw'),
    key,
    bytes: fc.oneof(
      { weight: 6, arbitrary: request },
      { weight: 1, arbitrary: cut },
      { weight: 1, arbitrary: twice },
      { weight: 1, arbitrary: bytes },
    ),
  });
}

/** Any of them, with the ids of two organizations. */
export function hostileRequest(own: Ids, other: Ids): fc.Arbitrary<HostileRequest> {
  return fc.oneof(
    { weight: 19, arbitrary: clientRequest(own, other) },
    { weight: 1, arbitrary: rawRequest(own, other) },
  );
}
