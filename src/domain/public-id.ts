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
const sqids = new Sqids({ alphabet, minLength: 12, blocklist: new Set() });

// sqids takes numbers up to 2^53 - 1; a greater id is written as two of them.
const halfBits = 32n;
const largest = 2n ** 63n - 1n;

/** The opaque public form of a row's number, such as `pur_…`. */
export function encodeId(resource: IdentifiedResource, id: bigint): string {
  const numbers =
    id <= BigInt(Number.MAX_SAFE_INTEGER)
      ? [Number(id)]
      : [Number(id >> halfBits), Number(id & (2n ** halfBits - 1n))];
  return `${idPrefixes[resource]}_${sqids.encode(numbers)}`;
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
