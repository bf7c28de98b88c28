import type { Database } from '../../postgres/connection/pool.ts';
import { findValidKeys } from '../../postgres/keys/api-keys.ts';
import { ApiError } from '../response/errors.ts';

/** The same error for missing, malformed, unknown, expired and revoked keys. */
export const invalidKey = (): ApiError =>
  new ApiError(
    'authentication_error',
    'A valid API key is required, sent as `Authorization: Bearer <API_KEY>`.',
  );

const defaultIntervalMs = 2_000;

/** Ends responses that take long when their API key is revoked, has expired or is deleted. */
export type KeyWatch = {
  /** The reason of the signal is the error of an invalid key. Call `end` after the response. */
  begin(keyId: bigint): { readonly signal: AbortSignal; end(): void };
};

/**
 * Checks the keys of running responses again and again, in one statement. If Postgres does not answer, the
 * responses continue.
 */
export function createKeyWatch(database: Database, intervalMs = defaultIntervalMs): KeyWatch {
  const watched = new Map<bigint, Set<AbortController>>();
  let isRunning = false;
  const check = async () => {
    const ids = [...watched.keys()];
    const valid = await findValidKeys(database, ids).catch(() => new Set(ids));
    for (const id of ids) {
      if (valid.has(id)) continue;
      for (const response of watched.get(id) ?? []) response.abort(invalidKey());
    }
    isRunning = watched.size > 0;
    if (isRunning) setTimeout(check, intervalMs).unref();
  };
  return {
    begin(keyId) {
      const ofKey = watched.get(keyId) ?? new Set();
      // Of each response: a signal compares a new listener with all that it has.
      const response = new AbortController();
      watched.set(keyId, ofKey.add(response));
      if (!isRunning) setTimeout(check, intervalMs).unref();
      isRunning = true;
      const end = () => {
        ofKey.delete(response);
        if (ofKey.size === 0) watched.delete(keyId);
      };
      return { signal: response.signal, end };
    },
  };
}
