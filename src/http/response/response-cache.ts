import { LRUCache } from 'lru-cache';
import { unlessAborted } from '../../domain/unless-aborted.ts';
import type { FormatName } from '../formats/negotiation.ts';
import type { HttpObserver } from '../observer.ts';
import type { ApiRequest, SnapshotRoute } from '../route.ts';
import { type SerializedResponse, serializeResult } from './serialized-response.ts';

type Respond = (signal: AbortSignal) => Promise<SerializedResponse>;

/** A request that waits for a response. The signal is read only if the response is not cached. */
type Waiter = { readonly client: string; readonly signal: AbortSignal };

/** An LRU cache of responses. Keys name immutable data, so an entry is stale only from its `changesAt` on. */
export type ResponseCache = {
  /**
   * Returns the cached response if it still holds at the instant `asOf`, or calls `respond`. Concurrent requests of one client with the
   * same key share a call, whose signal is aborted when all these clients have disconnected.
   * Requests of other clients call `respond` themselves, because each client has its own turns in the
   * queue of queries.
   */
  get(key: string, asOf: bigint, waiter: Waiter, respond: Respond): Promise<SerializedResponse>;
};

type InFlight = {
  readonly response: Promise<SerializedResponse>;
  readonly controller: AbortController;
  waiters: number;
};

/** Of an entry, beside its body and key. */
const overheadBytes = 512;

/** Caches nothing if `maxBytes` is 0. */
export function createResponseCache(maxBytes: number, observer?: HttpObserver): ResponseCache {
  const cache =
    maxBytes === 0
      ? null
      : new LRUCache<string, SerializedResponse>({
          maxSize: maxBytes,
          // One large response must not evict most others.
          maxEntrySize: Math.ceil(maxBytes / 8),
          sizeCalculation: ({ body }, key) => bytesOf(body) + bytesOf(key) + overheadBytes,
        });
  const inFlight = new Map<string, InFlight>();

  const start = (key: string, sharedKey: string, respond: Respond): InFlight => {
    const controller = new AbortController();
    const response = respond(controller.signal)
      .then((serialized) => {
        cache?.set(key, serialized);
        return serialized;
      })
      .finally(() => {
        if (inFlight.get(sharedKey) === started) inFlight.delete(sharedKey);
      });
    // It may reject when no request waits any more.
    response.catch(() => {});
    const started: InFlight = { response, controller, waiters: 0 };
    inFlight.set(sharedKey, started);
    return started;
  };

  return {
    async get(key, asOf, waiter, respond) {
      const cached = cache?.get(key);
      if (cached !== undefined && (cached.changesAt === undefined || asOf < cached.changesAt)) {
        observer?.cacheRead('hit');
        return cached;
      }
      const sharedKey = `${waiter.client} ${key}`;
      const earlier = inFlight.get(sharedKey);
      observer?.cacheRead(earlier === undefined ? 'miss' : 'shared');
      const shared = earlier ?? start(key, sharedKey, respond);
      shared.waiters += 1;
      try {
        return await unlessAborted(shared.response, waiter.signal);
      } finally {
        shared.waiters -= 1;
        if (shared.waiters === 0) {
          // A later request must not share an aborted call.
          if (inFlight.get(sharedKey) === shared) inFlight.delete(sharedKey);
          shared.controller.abort(new Error('all clients have disconnected'));
        }
      }
    },
  };
}

/** An upper bound: a character takes up to two bytes. */
const bytesOf = (content: string | Buffer): number =>
  typeof content === 'string' ? 2 * content.length : content.length;

type SnapshotRequest = {
  readonly route: SnapshotRoute;
  readonly format: FormatName;
  readonly serialize: (body: unknown) => string;
  readonly apiRequest: ApiRequest<unknown, unknown>;
};

/** Returns a cached response for the present version of the data, or calls the route's handler. */
export async function serializeSnapshot(
  cache: ResponseCache,
  snapshotRequest: SnapshotRequest,
): Promise<SerializedResponse> {
  const { route, format, apiRequest } = snapshotRequest;
  const { organizationId, purchases, cacheKey, spreadsheet } = apiRequest;
  const output = { ...snapshotRequest, spreadsheet };
  const respond = async (signal: AbortSignal) =>
    serializeResult(output, await route.handle({ ...apiRequest, signal }));
  const version = await purchases.version(organizationId);
  if (version === null) return respond(apiRequest.signal);
  const key = `${version.name} ${organizationId} ${format} ${cacheKey}`;
  const response = await cache.get(key, version.asOf, apiRequest, respond);
  // Since the response was cached, a worker may have confirmed a later instant.
  return { ...response, asOf: version.asOf > response.asOf ? version.asOf : response.asOf };
}
