import { createHash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const prefix = 'crm_live_';
const secretLength = 36;
const checksumLength = 6;
const secretPattern = new RegExp(`^${prefix}[0-9A-Za-z]{${secretLength + checksumLength}}$`);

/** A prefix with `live`, 36 random characters and a checksum. */
export function generateSecret(): string {
  const random = Array.from({ length: secretLength }, () => base62[randomInt(62)]).join('');
  return `${prefix}${random}${checksum(random)}`;
}

/** Detects a mistyped secret by its checksum, without a query. */
function isPossibleSecret(secret: string): boolean {
  if (!secretPattern.test(secret)) return false;
  const body = secret.slice(prefix.length);
  return checksum(body.slice(0, secretLength)) === body.slice(secretLength);
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let position = 0; position < checksumLength; position += 1) {
    digits = base62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

// A secret has over 200 random bits, so a hash without salt is safe.
export const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest();

/** The hash that identifies a key; null if the text cannot be a secret. */
export const secretHash = (secret: string): Buffer | null =>
  isPossibleSecret(secret) ? hashOf(secret) : null;
