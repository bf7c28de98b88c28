import { randomUUID } from 'node:crypto';

/** A new id of section 7. Ids that clients send are not used. */
export function newRequestId(): string {
  // Node caches random bytes for UUIDs, unlike for randomBytes.
  return `req_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
}
