import { randomBytes } from 'node:crypto';

/** Section 7: of our own making, whatever a caller sends. */
export function newRequestId(): string {
  return `req_${randomBytes(12).toString('hex')}`;
}
