import Sqids from 'sqids';

/** Section 2.2. */
export const idPrefixes = {
  organization: 'org',
  api_key: 'bak',
  customer: 'cus',
  segment: 'seg',
  purchase: 'pur',
  tag: 'tag',
  attribute: 'atr',
  flow: 'flw',
  email_campaign: 'emc',
  template_campaign: 'tcp',
} as const;
export type IdentifiedResource = keyof typeof idPrefixes;

// Part of every identifier ever handed out: changing it breaks them all.
const alphabet = '50WMOeSiBRDxH1sYn9J2XfCEtw478NlyzkubTQGvodp3gLr6AhajqPFmIZcVUK';
const leastLength = 12;
const sqids = new Sqids({ alphabet, minLength: leastLength, blocklist: new Set() });

// sqids takes numbers up to 2^53 - 1; a greater id is written as two of them.
const halfBits = 32n;
const largest = 2n ** 63n - 1n;

/** What an id is by definition; `encodeId` gives the same, several times as fast. */
export function encodeIdWithLibrary(resource: IdentifiedResource, id: bigint): string {
  const numbers =
    id <= BigInt(Number.MAX_SAFE_INTEGER)
      ? [Number(id)]
      : [Number(id >> halfBits), Number(id & (2n ** halfBits - 1n))];
  return `${idPrefixes[resource]}_${sqids.encode(numbers)}`;
}

/**
 * What sqids makes of a number that it takes as one depends on the remainder by the
 * alphabet's length: a first character, the digits, and what fills up to the least length.
 */
type Spelling = {
  readonly first: string;
  readonly digits: readonly string[];
  readonly filling: string;
};
const base = alphabet.length - 1;
let spellings: readonly Spelling[] | undefined;

function allSpellings(): readonly Spelling[] {
  spellings ??= readSpellings();
  return spellings;
}

/** Read off the library's own ids: every digit is the last one of some small number. */
function readSpellings(): Spelling[] {
  return Array.from({ length: alphabet.length }, (_, remainder) => {
    const digits: string[] = [];
    for (let step = 0; step < base; step += 1) {
      const number = remainder + alphabet.length * step;
      const length = number < base ? 1 : number < base ** 2 ? 2 : 3;
      digits[number % base] = sqids.encode([number])[length] as string;
    }
    const shortest = sqids.encode([remainder < base ? remainder : remainder + alphabet.length]);
    const filling = shortest.slice(remainder < base ? 2 : 3);
    return { first: shortest[0] as string, digits, filling };
  });
}

/** The opaque public form of a row's number, such as `pur_…`. Answers and exports are full of them. */
export function encodeId(resource: IdentifiedResource, id: bigint): string {
  const number = Number(id);
  if (number < 0 || number > Number.MAX_SAFE_INTEGER) return encodeIdWithLibrary(resource, id);
  const { first, digits, filling } = allSpellings()[number % alphabet.length] as Spelling;
  let text = '';
  let rest = number;
  do {
    text = (digits[rest % base] as string) + text;
    rest = Math.floor(rest / base);
  } while (rest > 0);
  // Where the least length is reached, nothing separates digits from filling.
  const missing = leastLength - 1 - text.length;
  const filled = missing > 0 ? filling.slice(0, missing) : '';
  return `${idPrefixes[resource]}_${first}${text}${filled}`;
}

/** The pattern that path and filter parameters are validated against. */
export function idPattern(resource: IdentifiedResource): RegExp {
  return new RegExp(`^${idPrefixes[resource]}_[A-Za-z0-9_-]+$`);
}

/**
 * The number behind a public id, or null where it is the id of no possible row:
 * a text that does not encode back to itself is nobody's id.
 */
export function decodeId(resource: IdentifiedResource, publicId: string): bigint | null {
  const prefix = `${idPrefixes[resource]}_`;
  const body = publicId.slice(prefix.length);
  // The longest encoding of two numbers is far below this bound.
  if (!publicId.startsWith(prefix) || !/^[A-Za-z0-9]{12,64}$/.test(body)) return null;
  const numbers = sqids.decode(body);
  const id =
    numbers.length === 1
      ? BigInt(numbers[0] as number)
      : numbers.length === 2
        ? (BigInt(numbers[0] as number) << halfBits) + BigInt(numbers[1] as number)
        : 0n;
  if (id <= 0n || id > largest) return null;
  return encodeId(resource, id) === publicId ? id : null;
}
