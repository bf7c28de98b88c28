/**
 * Exact numbers of stored JSON. Postgres stores decimals, but JSON.parse returns doubles: the id of
 * a customer on another platform could become another customer's. A number that is no exact double
 * is parsed as text with a leading NUL, which no text or jsonb of Postgres can contain. The response
 * shows the number without NUL and quotes.
 */
const mark = '\0';

const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d[\d.eE+-]*/g;
// Doubles keep 15 digits, but neither trailing zeros of a fraction nor the notation of very small
// numbers. False positives only cost time.
const mayBeInexact = /\d[\d.]{15}|\.\d*0(?!\d)|\.0{6}/;
const markedNumbers = /"\\u0000(-?\d[\d.eE+-]*)"/g;

/** JSON.parse with exact numbers. `digitsOf` returns their digits. */
export function parseExactly(json: string): unknown {
  if (!json.includes('\\') && !mayBeInexact.test(json)) return JSON.parse(json);
  let hasEncodedName = false;
  const exact = json.replace(tokens, (token, colon?: string) => {
    if (!token.startsWith('"')) return isExactDouble(token) ? token : `"\\u0000${token}"`;
    if (colon === undefined || !/[\\%]/.test(token)) return token;
    hasEncodedName = true;
    return `"${encodeURIComponent(JSON.parse(token.slice(0, -colon.length)))}"${colon}`;
  });
  return JSON.parse(exact, hasEncodedName ? decodeNames : undefined);
}

// After a name that ends in a backslash, V8 12.8 and later (Node 24 and 26) may parse another
// name that is escaped as the first one: https://github.com/nodejs/node/issues/63785.
// So names with an escape or a percent sign are parsed percent-encoded.
function decodeNames(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [decodeURIComponent(name), member]),
  );
}

function isExactDouble(token: string): boolean {
  const double = Number(token);
  // Many clients refuse a response with a number beyond all doubles, so it becomes Infinity.
  return !Number.isFinite(double) || String(double) === token;
}

/** Text of a plain decimal number as `parseExactly` returns the number; undefined for other text. */
export function numberIn(text: string): number | string | undefined {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text)) return undefined;
  return isExactDouble(text) ? Number(text) : mark + text;
}

/** A replacer of JSON.stringify, for `writeExactly`. */
export const bigintsAsNumbers = (_name: string, value: unknown): unknown => {
  if (typeof value !== 'bigint') return value;
  const double = Number(value);
  return Number.isSafeInteger(double) ? double : `${mark}${value}`;
};

/** Whether a value from `parseExactly` is text rather than a number. */
export const isText = (value: unknown): value is string =>
  typeof value === 'string' && !value.startsWith(mark);

/** Whether a value from `parseExactly` is a number, and not beyond all doubles. */
export const isNumber = (value: unknown): value is number | string =>
  typeof value === 'string' ? value.startsWith(mark) : Number.isFinite(value);

/** The digits of a number from `parseExactly`. */
export const digitsOf = (number: number | string): string =>
  typeof number === 'string' ? number.slice(mark.length) : String(number);

/** Removes the NUL and the quotes of exact numbers from serialized JSON. */
export function writeExactly(json: string): string {
  return json.includes('"\\u0000') ? json.replace(markedNumbers, '$1') : json;
}
