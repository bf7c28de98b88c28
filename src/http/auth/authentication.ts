import type { FastifyRequest } from 'fastify';
import {
  type Credential,
  findCredential,
  findCredentialAndCount,
  secretHash,
  type Usage,
} from '../../postgres/api-keys.ts';
import type { Database } from '../../postgres/pool.ts';
import { ApiError } from '../response/errors.ts';
import { defaultMaxSilenceMs, waitForPostgres } from '../server/postgres-silence.ts';
import { createCounter, windowMs } from './rate-limit.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Of a valid key, also if the request is refused; null without one. Set before any handler under /v1 runs. */
    credential: Credential;
  }
}

const bearer = /^Bearer +([\x21-\x7e]+) *$/i;

/** Who sent a request, and what the key has used of its limit with it. */
export type CheckedKey = { readonly credential: Credential; readonly usage: Usage };

/** Null where the request has no valid key. */
export type KeyCheck = (request: FastifyRequest) => Promise<CheckedKey | null>;

/**
 * Finds a request's key (section 5) and counts the request. Asks Postgres every time,
 * so that a revoked key is refused at once, and with one statement, wherever the counts
 * are kept.
 */
export function createKeyCheck(
  database: Database,
  limit: { readonly perMinute: number; readonly store: 'memory' | 'postgres' },
  maxSilenceMs = defaultMaxSilenceMs,
): KeyCheck {
  const findAndCount =
    limit.store === 'postgres'
      ? (hash: Buffer) => findCredentialAndCount(database, hash, windowMs)
      : countingHere(database, limit.perMinute);
  return async (request) => {
    const secret = bearer.exec(request.headers.authorization ?? '')?.[1];
    const hash = secret === undefined ? null : secretHash(secret);
    if (hash === null) return null;
    return waitForPostgres(database, findAndCount(hash), maxSilenceMs);
  };
}

/** Counts in this process. */
function countingHere(database: Database, perMinute: number) {
  const count = createCounter({ name: 'requests', perMinute, sharedIn: undefined });
  return async (hash: Buffer): Promise<CheckedKey | null> => {
    const credential = await findCredential(database, hash);
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

/** Every operation reads, and none writes. */
export function requireReading({ scopes }: Credential): void {
  if (scopes.includes('read')) return;
  throw new ApiError('permission_denied', 'The API key lacks the permission read.');
}
