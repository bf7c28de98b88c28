import fc from 'fast-check';
import type { IdentifiedResource } from '../../src/domain/public-id.ts';
import { parameters, type Values } from './parameter-values.ts';

/** Public ids, by resource. */
export type Ids = Readonly<Record<IdentifiedResource, readonly string[]>>;

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
/** Invalid percent-encodings: lone surrogates, overlong forms, incomplete sequences. */
const brokenEncodings = [
  ...['%', '%Z', '%ZZ', '%0', '%FF', '%C0%AF', '%ED%A0%80', '%ED%BF%BF', '%E0%A4%A', '%u0041'],
  ...['%F4%90%80%80', '%00', '%0D%0A', '%2525', '%252F', '%2F', '%5C', '%2e%2e', '+', '\xe9'],
] as const;

const oddText = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...oddTexts) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 40 }) },
);
export const encodedText = fc.oneof(
  { weight: 8, arbitrary: oddText.map(encodeURIComponent) },
  { weight: 1, arbitrary: fc.constantFrom(...brokenEncodings) },
);

/** Ids of the key's organization, of the other one, of neither, of other resources, and malformed ones. */
export function idOf(resource: IdentifiedResource, own: Ids, other: Ids): fc.Arbitrary<string> {
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

/** Mostly values that the parameter accepts. */
export function parameterValue(
  name: string,
  resource: IdentifiedResource,
  own: Ids,
  other: Ids,
): fc.Arbitrary<string> {
  switch (name) {
    case 'starting_after':
      return idOf(resource, own, other);
    case 'customer_id':
      return idOf('customer', own, other);
    case 'ids':
      return fc.array(idOf('customer', own, other), { minLength: 1 }).map((ids) => ids.join(','));
    case 'tag_id':
      return idOf('tag', own, other);
    case 'segment_id':
      return idOf('segment', own, other);
    case 'sort':
      return fc.constantFrom('updated', 'total_spent', 'created');
  }
  const { accepted, refused } = parameters[name] as Values;
  const valid = accepted.length === 0 ? encodedText : fc.constantFrom(...accepted);
  return fc.oneof(
    { weight: 5, arbitrary: valid },
    { weight: 1, arbitrary: fc.constantFrom(...refused) },
    { weight: 1, arbitrary: encodedText },
  );
}

export const headerValue = fc.oneof(
  fc.constantFrom(
    ...['', '*', '"', '""', 'W/', 'W/"', '"a", "b"', '*, *', '"*"', ',,,', '"\xe9"', ';q=', '*/*'],
    ...['text/csv', 'application/json;q=0', 'application/vnd.apache.arrow.stream', 'gzip;q=1.1'],
    ...['br, gzip, zstd', 'identity;q=0', '"'.repeat(4000), '", '.repeat(1500), 'x'.repeat(6000)],
    ...['req_0123456789abcdef01234567', 'bytes=0-1', 'DELETE', '127.0.0.1', 'chunked'],
  ),
  // Valid in a header: printable characters, tabs and high bytes.
  fc.string({
    unit: fc.constantFrom(...'az09 \t"\'\\,;=*/()<>@[]?{}%$#!~^|\x80\xe9\xff'),
    maxLength: 60,
  }),
);
export const headerName = fc.constantFrom(
  ...['if-none-match', 'if-none-match', 'accept', 'accept', 'accept-encoding', 'accept-language'],
  ...['if-match', 'if-modified-since', 'range', 'cookie', 'origin', 'referer', 'user-agent'],
  ...['x-request-id', 'request-id', 'x-forwarded-for', 'x-forwarded-host', 'forwarded'],
  'x-real-ip',
  ...['x-http-method-override', 'x-organization-id', 'host', 'content-type', '__proto__', 'te'],
  ...['x-original-url', 'x-rewrite-url', 'access-control-request-method', 'upgrade', 'via'],
);
