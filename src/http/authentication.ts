import type { FastifyRequest } from 'fastify';
import { type Credential, findCredential } from '../postgres/api-keys.ts';
import type { Database } from '../postgres/pool.ts';
import { ApiError } from './errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before any handler under /v1 runs. */
    credential: Credential;
  }
}

const bearer = /^Bearer +([\x21-\x7e]+) *$/i;

/**
 * The credential of a request (section 5), or null. Asks Postgres every time, so
 * that a revoked key is refused at once.
 */
export async function authenticate(
  database: Database,
  request: FastifyRequest,
): Promise<Credential | null> {
  const secret = bearer.exec(request.headers.authorization ?? '')?.[1];
  return secret === undefined ? null : findCredential(database, secret);
}

/** Missing, malformed, unknown, expired and revoked keys are one and the same to the caller. */
export const invalidKey = (): ApiError =>
  new ApiError(
    'authentication_error',
    'A valid API key is required, sent as `Authorization: Bearer <API_KEY>`.',
  );

export function requireScope(credential: Credential, scope: 'read'): void {
  if (credential.scopes.includes(scope)) return;
  throw new ApiError('permission_denied', `The API key lacks the permission ${scope}.`);
}
