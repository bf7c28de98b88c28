import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../../postgres/connection/pool.ts';
import {
  type Credential,
  findCredential,
  findCredentialAndCount,
} from '../../postgres/keys/api-keys.ts';
import { secretHash } from '../../postgres/keys/key-secret.ts';
import type { Usage } from '../../postgres/keys/rate-limits.ts';
import { createTurnQueue, type TurnQueue } from '../../queue/turn-queue.ts';
import type { Settings } from '../../settings/settings.ts';
import { clientNetwork } from '../client-network.ts';
import type { HttpObserver } from '../observer.ts';
import { ApiError } from '../response/errors.ts';
import { addVary } from '../response/vary.ts';
import { waitForPostgres } from '../server/postgres-silence.ts';
import type { KeyUses } from './key-uses.ts';
import { invalidKey } from './key-watch.ts';
import { createCounter, requireWithinLimit, setRateLimitHeaders, windowMs } from './rate-limit.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Of a valid key, also if the request is refused; null without a valid key. Set before handlers under /v1 run. */
    credential: Credential;
  }
}

const bearer = /^Bearer +([\x21-\x7e]+) *$/i;

/** The credential of a request's key, and the key's usage of its limit. */
type CheckedKey = { readonly credential: Credential; readonly usage: Usage };

/** Null if the request has no valid key. */
type KeyCheck = (request: FastifyRequest) => Promise<CheckedKey | null>;

type KeySettings = Pick<
  Settings,
  'databaseSilenceMs' | 'failedKeysPerMinute' | 'rateLimitPerMinute' | 'rateLimitStore'
>;

/**
 * Checks a request's key (section 5) and counts the request. Each check is one statement in
 * Postgres that begins after the request, so a revoked key is refused at once. Keys take turns: a thousand
 * requests of one key delay the check of another by one check.
 */
export function createKeyCheck(
  database: Database,
  {
    rateLimitPerMinute,
    rateLimitStore,
    databaseSilenceMs,
  }: Omit<KeySettings, 'failedKeysPerMinute'>,
  turns: TurnQueue = createTurnQueue(database.options.max),
): KeyCheck {
  const findAndCount =
    rateLimitStore === 'postgres'
      ? inTurns(turns, (hash) => findCredentialAndCount(database, hash, windowMs))
      : countInMemory(database, rateLimitPerMinute, turns);
  return async (request) => {
    const secret = bearer.exec(authorizationOf(request))?.[1];
    const hash = secret === undefined ? null : secretHash(secret);
    if (hash === null) return null;
    const waiting = new AbortController();
    const check = findAndCount(hash, waiting.signal);
    return waitForPostgres(database, check, databaseSilenceMs).finally(() => waiting.abort());
  };
}

/** Runs when the key has its turn. After the signal, nobody waits for the result. */
type InTurn<Result> = (hash: Buffer, signal: AbortSignal) => Promise<Result>;

const inTurns =
  <Result>(turns: TurnQueue, run: (hash: Buffer) => Promise<Result>): InTurn<Result> =>
  (hash, signal) =>
    turns.add(() => run(hash), { turn: hash.toString('base64'), signal });

/** Requests of one key share the run that has not begun. */
function sharedInTurns<Result>(
  turns: TurnQueue,
  run: (hash: Buffer) => Promise<Result>,
): (hash: Buffer) => Promise<Result> {
  const notBegun = new Map<string, Promise<Result>>();
  return (hash) => {
    const turn = hash.toString('base64');
    const begin = () => {
      notBegun.delete(turn);
      return run(hash);
    };
    const shared = notBegun.get(turn) ?? turns.add(begin, { turn });
    if (turns.sizeBy({ turn }) > 0) notBegun.set(turn, shared);
    return shared;
  };
}

/** Empty if there is none, or if several differ: of these, Node's `headers` have the first one. */
function authorizationOf({ raw: { rawHeaders } }: FastifyRequest): string {
  const values = rawHeaders.filter(
    (_, index) => rawHeaders[index - 1]?.toLowerCase() === 'authorization' && index % 2 === 1,
  );
  return new Set(values).size === 1 ? (values[0] ?? '') : '';
}

function countInMemory(
  database: Database,
  perMinute: number,
  turns: TurnQueue,
): InTurn<CheckedKey | null> {
  const count = createCounter({ name: 'requests', perMinute, sharedIn: undefined });
  const find = sharedInTurns(turns, (hash) => findCredential(database, hash));
  return async (hash) => {
    const credential = await find(hash);
    if (credential === null) return null;
    return { credential, usage: await count(String(credential.keyId)) };
  };
}

export type Authorize = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** Every request under /v1 must pass the key check, the rate limit and the scope check, in this order. */
export function createAuthorize(
  database: Database,
  settings: KeySettings,
  {
    keyUses,
    observer,
    keyTurns,
  }: {
    readonly keyUses: Pick<KeyUses, 'add'>;
    readonly observer: HttpObserver | undefined;
    readonly keyTurns: TurnQueue | undefined;
  },
): Authorize {
  const { rateLimitPerMinute, failedKeysPerMinute, rateLimitStore, databaseSilenceMs } = settings;
  const checkKey = createKeyCheck(database, settings, keyTurns);
  const countFailedKey = createCounter({
    name: 'failed keys',
    perMinute: failedKeysPerMinute,
    sharedIn: rateLimitStore === 'postgres' ? database : undefined,
  });
  const tooManyRequests = `This API key has used its ${rateLimitPerMinute} requests of the current minute.`;
  const tooManyFailedKeys = 'Too many requests without a valid API key came from this address.';
  return async (request, reply) => {
    reply.header('Cache-Control', 'private, no-cache');
    addVary(reply, 'Authorization', 'Accept', 'Accept-Encoding');
    const checked = await checkKey(request);
    if (checked === null) {
      observer?.keyFailed();
      const counting = countFailedKey(clientNetwork(request.ip));
      const usage = await waitForPostgres(database, counting, databaseSilenceMs);
      requireWithinLimit(failedKeysPerMinute, usage, 'failed_keys', tooManyFailedKeys);
      throw invalidKey();
    }
    request.credential = checked.credential;
    keyUses.add(checked.credential.keyId);
    setRateLimitHeaders(reply, rateLimitPerMinute, checked.usage);
    requireWithinLimit(rateLimitPerMinute, checked.usage, 'requests', tooManyRequests);
    requireReadScope(checked.credential);
  };
}

function requireReadScope({ scopes }: Credential): void {
  if (scopes.includes('read')) return;
  throw new ApiError('permission_denied', 'The API key lacks the permission read.');
}
