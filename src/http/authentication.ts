import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import {
  type Credential,
  findCredential,
  findCredentialAndCount,
  secretHash,
  type Usage,
} from '../postgres/api-keys.ts';
import type { Database } from '../postgres/pool.ts';
import { ApiError } from './errors.ts';
import { defaultMaxSilenceMs, waitForPostgres } from './postgres-silence.ts';
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

export type KeyCheck = {
  /** Whose the key was when it was last let pass, for what is not shown before the check. */
  readonly presumed: Credential | null;
  /** Null where there is no valid key. */
  readonly checked: Promise<CheckedKey | null>;
};

/** Of how many keys it is known that they were let pass. */
const mostPresumed = 10_000;

/**
 * Finds a request's key (section 5) and counts the request. Asks Postgres every time,
 * so that a revoked key is refused at once, and with one statement, wherever the counts
 * are kept.
 */
export function createKeyCheck(
  database: Database,
  limit: { readonly perMinute: number; readonly store: 'memory' | 'postgres' },
  maxSilenceMs = defaultMaxSilenceMs,
): (request: FastifyRequest) => KeyCheck {
  const findAndCount =
    limit.store === 'postgres'
      ? (hash: Buffer) => findCredentialAndCount(database, hash, windowMs)
      : countingHere(database, limit.perMinute);
  const presumed = new LRUCache<string, Credential>({ max: mostPresumed });

  const check = async (hash: Buffer, name: string) => {
    let isLetPass = false;
    try {
      const found = await waitForPostgres(database, findAndCount(hash), maxSilenceMs);
      isLetPass = found !== null && found.usage.events <= limit.perMinute;
      if (found !== null && isLetPass) presumed.set(name, found.credential);
      return found;
    } finally {
      // Also where Postgres does not answer.
      if (!isLetPass) presumed.delete(name);
    }
  };

  return (request) => {
    const secret = bearer.exec(request.headers.authorization ?? '')?.[1];
    const hash = secret === undefined ? null : secretHash(secret);
    if (hash === null) return { presumed: null, checked: Promise.resolve(null) };
    const name = hash.toString('latin1');
    return { checked: check(hash, name), presumed: presumed.get(name) ?? null };
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
export const mayRead = ({ scopes }: Credential): boolean => scopes.includes('read');

export function requireReading(credential: Credential): void {
  if (mayRead(credential)) return;
  throw new ApiError('permission_denied', 'The API key lacks the permission read.');
}
