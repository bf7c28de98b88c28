import { LRUCache } from 'lru-cache';
import type { DataVersion } from '../../domain/purchase-engine.ts';
import { unlessAborted } from '../../domain/wait-until-fresh.ts';
import type { FormatName } from '../formats/negotiation.ts';
import type { HttpObserver } from '../observer.ts';
import type { ApiRequest, SnapshotResult, SnapshotRoute } from '../route.ts';
import { type SerializedResponse, serializeResult } from './serialized-response.ts';

type SnapshotResponse = SerializedResponse & Pick<SnapshotResult<unknown>, 'version' | 'changesAt'>;

type Respond = (signal: AbortSignal) => Promise<SnapshotResponse>;

/** A request that waits for a response. The signal is read only if the response is not cached. */
type Waiter = { readonly client: string; readonly signal: AbortSignal };

/** An LRU cache of responses by the version that they show, and by request. */
export type ResponseCache = {
  /**
   * Returns the cached response of `version`, with its instant, or calls `respond`. Concurrent requests of one
   * client with the same key share a call, whose signal is aborted when all these clients have disconnected.
   * Requests of other clients call `respond` themselves, because each client has its own turns in the
   * queue of queries.
   */
  get(
    version: DataVersion,
    key: string,
    waiter: Waiter,
    respond: Respond,
  ): Promise<SerializedResponse>;
};

/** The response with the instant of `version`; null if it shows other data, or if it may differ at this instant. */
function responseAt(
  response: SnapshotResponse | undefined,
  { name, asOf }: DataVersion,
): SnapshotResponse | null {
  if (response?.version !== name) return null;
  const { asOf: since, changesAt } = response;
  return changesAt === undefined || (since <= asOf && asOf < changesAt)
    ? { ...response, asOf }
    : null;
}

type InFlight = {
  readonly response: Promise<SnapshotResponse>;
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
      : new LRUCache<string, SnapshotResponse>({
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
        if (serialized.version !== null) cache?.set(keyOf(serialized.version, key), serialized);
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

  const share = async (
    { name }: DataVersion,
    key: string,
    { client, signal }: Waiter,
    respond: Respond,
  ) => {
    const sharedKey = `${client} ${keyOf(name, key)}`;
    const earlier = inFlight.get(sharedKey);
    observer?.cacheRead(earlier === undefined ? 'miss' : 'shared');
    const shared = earlier ?? start(key, sharedKey, respond);
    shared.waiters += 1;
    try {
      return {
        response: await unlessAborted(shared.response, signal),
        isShared: shared === earlier,
      };
    } finally {
      shared.waiters -= 1;
      if (shared.waiters === 0) {
        // A later request must not share an aborted call.
        if (inFlight.get(sharedKey) === shared) inFlight.delete(sharedKey);
        shared.controller.abort(new Error('all clients have disconnected'));
      }
    }
  };

  return {
    async get(version, key, waiter, respond) {
      for (;;) {
        const cached = responseAt(cache?.get(keyOf(version.name, key)), version);
        if (cached !== null) {
          observer?.cacheRead('hit');
          return cached;
        }
        const { response, isShared } = await share(version, key, waiter, respond);
        if (!isShared) return response;
        // The call may have read its data before `version` was found.
        const shared = responseAt(response, version);
        if (shared !== null) return shared;
        if (response.asOf >= version.asOf) return response;
      }
    },
  };
}

const keyOf = (version: string, key: string): string => `${version} ${key}`;

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
  const respond = async (signal: AbortSignal) => {
    const handled = await route.handle({ ...apiRequest, signal });
    const { version, changesAt } = handled;
    return { ...serializeResult(output, handled), version, changesAt };
  };
  const version = await purchases.version(organizationId);
  if (version === null) return respond(apiRequest.signal);
  return cache.get(version, `${organizationId} ${format} ${cacheKey}`, apiRequest, respond);
}
