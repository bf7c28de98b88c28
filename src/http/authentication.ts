import type { FastifyRequest } from 'fastify';
import {
  type Credential,
  findCredential,
  findCredentialAndCount,
  type Usage,
} from '../postgres/api-keys.ts';
import type { Database } from '../postgres/pool.ts';
import { ApiError } from './errors.ts';
import { createCounter, windowMs } from './rate-limit.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before any handler under /v1 runs. */
    credential: Credential;
  }
}

const bearer = /^Bearer +([\x21-\x7e]+) *$/i;

/** Who sent a request, and what the key has used of its limit with it. */
export type CheckedKey = { readonly credential: Credential; readonly usage: Usage };

/**
 * Finds a request's key (section 5), or null, and counts the request. Asks Postgres
 * every time, so that a revoked key is refused at once, and with one statement,
 * wherever the counts are kept.
 */
export function createKeyCheck(
  database: Database,
  limit: { readonly perMinute: number; readonly store: 'memory' | 'postgres' },
): (request: FastifyRequest) => Promise<CheckedKey | null> {
  const findAndCount =
    limit.store === 'postgres'
      ? (secret: string) => findCredentialAndCount(database, secret, windowMs)
      : countingHere(database, limit.perMinute);
  return async (request) => {
    const secret = bearer.exec(request.headers.authorization ?? '')?.[1];
    return secret === undefined ? null : findAndCount(secret);
  };
}

/** Counts in this process. */
function countingHere(database: Database, perMinute: number) {
  const count = createCounter({ name: 'requests', perMinute, sharedIn: undefined });
  return async (secret: string): Promise<CheckedKey | null> => {
    const credential = await findCredential(database, secret);
    if (credential === null) return null;
    return { credential, usage: await count(String(credential.keyId)) };
  };
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
