import fc from 'fast-check';
import type { IdentifiedResource } from '../../src/domain/public-id.ts';
import { statsDimensions } from '../../src/domain/purchase-query.ts';

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
/** Invalid percent-encodings: lone surrogates, overlong forms, incomplete sequences. */
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
    case 'ids':
      return fc.array(idOf('customer', own, other), { minLength: 1 }).map((ids) => ids.join(','));
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
      return plausible(...statsDimensions);
    case 'sort':
      return plausible('updated', 'total_spent');
    case 'format':
      return plausible('json', 'csv', 'csv_excel', 'ndjson', 'arrow');
    case 'timezone':
      return plausible('UTC', 'America/Sao_Paulo', 'Asia/Kolkata');
    case 'is_subscribed':
      return plausible('true', 'false');
    case 'phone':
      return plausible('11900000001', '+55 (11)', '001', '%%%', '1'.repeat(33));
    default:
      return encodedText;
  }
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
