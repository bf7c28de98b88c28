import fc from 'fast-check';
import type { IdentifiedResource } from '../../src/domain/public-id.ts';
import type { Operation } from './endpoints.ts';
import {
  encodedText,
  headerName,
  headerValue,
  type Ids,
  idOf,
  parameterValue,
} from './hostile-values.ts';

/**
 * Malformed requests, and enough almost valid ones that pass the first checks and reach
 * a handler.
 */

const keyKinds = ['own', 'other', 'writer', 'revoked', 'wrong', 'none'] as const;
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
type RawRequest = {
  readonly kind: 'raw';
  readonly key: KeyKind;
  readonly bytes: string;
};

export type HostileRequest = ClientRequest | RawRequest;

/** Replaced by the key's header in a raw request. */
export const keyPlaceholder = '{key}';

/** The operations and ids that requests use. */
export type Target = {
  readonly operations: readonly Operation[];
  readonly own: Ids;
  readonly other: Ids;
};

const undescribed: readonly Operation[] = [
  ...['/v1/segments/export', '/v1/nothing/{customer}', '/healthz', '/readyz', '/metrics'],
  ...['/docs', '/docs/{tag}', '/openapi.json'],
].map((path) => ({ path, resource: 'customer', parameters: [] }));

function requestUrl({ operations, own, other }: Target): fc.Arbitrary<string> {
  const templates = [...operations, ...undescribed];
  const allParameters = [...new Set(operations.flatMap(({ parameters }) => parameters))];
  const parametersOf = ({ parameters, resource }: Operation): fc.Arbitrary<string> => {
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
    // Each parameter once, because the API refuses repeated ones.
    const right = fc
      .uniqueArray(fc.constantFrom(...parameters), { maxLength: 4 })
      .chain((names) => fc.tuple(...names.map(pair)));
    return fc.oneof({ weight: 5, arbitrary: right }, { weight: 1, arbitrary: hostile }).map(joined);
  };
  const pathOf = ({ path }: Operation): fc.Arbitrary<string> => {
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
    ...['/', '//', '//v1/me', '/v1', '/v1/', '/v1?', '/V1/me', '/%761/me', '/v1/%6de'],
    ...['*', '/v2/me'],
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

/** Without characters that Node's client refuses to send. Raw requests send these. */
const sendable = (url: string): string => url.replaceAll(/[^\x21-\xff]/g, '_');

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
    ...['Bearer', 'Bearer ', 'bearer \t', 'Basic Og==', `Bearer crm_live_${'a'.repeat(42)}`],
  ),
  headerValue.map((value) => `Bearer ${value}`),
);
const oddMethod = fc.constantFrom(
  ...['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'SEARCH', 'PURGE'],
  ...['M-SEARCH', 'get', 'FETCH', 'BREW', 'X'.repeat(100)],
);
const body = fc.constantFrom(
  ...['', 'a', '{}', '{', '{"__proto__":{"a":1}}', 'limit=1', '\0\0\0'],
  'GET /v1/me HTTP/1.1\r\n\r\n',
  'a'.repeat(60_000),
);

/** A value in one of fifteen cases. */
function rarely<Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | null> {
  return fc.oneof({ weight: 14, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });
}

function clientRequest(target: Target): fc.Arbitrary<ClientRequest> {
  const method = fc.oneof(
    { weight: 16, arbitrary: fc.constant('GET') },
    { weight: 2, arbitrary: fc.constant('HEAD') },
    { weight: 1, arbitrary: oddMethod },
  );
  return fc
    .record({
      method,
      url: requestUrl(target),
      key,
      headers,
      authorization: rarely(oddAuthorization),
      body: rarely(body),
    })
    .map(({ authorization, ...request }) => ({
      kind: 'client',
      ...request,
      // Not in place of a valid key.
      ...(authorization === null || request.key === 'own' || request.key === 'other'
        ? {}
        : { headers: { ...request.headers, authorization } }),
    }));
}

/** Requests that are not valid HTTP, so that no client library sends them. */
function rawRequest(target: Target): fc.Arbitrary<RawRequest> {
  const line = fc.oneof(
    requestUrl(target).map((url) => `GET ${url} HTTP/1.1`),
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
      ...['no colon', ': no name', 'Host', 'Host: a\r\nHost: b', 'X: a\x00b', 'X: a\rb'],
      'X\x00: a',
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
    ...['', '', '5\r\nhello\r\n0\r\n\r\n', 'zz\r\n', 'GARBAGE', '\0'.repeat(99)],
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

/** Requests of both kinds, with the ids of two organizations. */
export function hostileRequest(target: Target): fc.Arbitrary<HostileRequest> {
  return fc.oneof(
    { weight: 19, arbitrary: clientRequest(target) },
    { weight: 1, arbitrary: rawRequest(target) },
  );
}
