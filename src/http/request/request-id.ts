import { randomUUID } from 'node:crypto';

/** Section 7: of our own making, whatever a caller sends. */
export function newRequestId(): string {
  // Drawn many at a time, which randomBytes does not.
  return `req_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
}
