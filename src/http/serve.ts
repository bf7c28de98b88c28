import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../domain/instant.ts';
import type { PurchaseEngine } from '../domain/purchase-engine.ts';
import type { KeyWatch } from './auth/key-watch.ts';
import {
  acceptedFormat,
  type ExportFormatName,
  exportFormatNames,
  type FormatName,
  formatNames,
} from './formats/negotiation.ts';
import {
  createRequestReader,
  type GivenParameters,
  readApiRequest,
} from './request/api-request.ts';
import { type MinimumFreshness, readFreshnessRequirement } from './request/minimum-freshness.ts';
import { parseQueryString, queryStringOf } from './request/read-parameters.ts';
import { conditional, matchesTag } from './response/etag.ts';
import { type ExportOptions, sendExport } from './response/export.ts';
import { type ResponseCache, serializeSnapshot } from './response/response-cache.ts';
import { type SerializedResponse, serializeResult } from './response/serialized-response.ts';
import type { CountUnread } from './response/unread-responses.ts';
import type { WaitingRequests } from './response/waiting-requests.ts';
import { serializerSchema } from './response/wire.ts';
import {
  type ApiRequest,
  type ExportRoute,
  type FeedRoute,
  hasMinimumFreshness,
  isList,
  type Route,
  type SnapshotRoute,
} from './route.ts';

type ServeOptions = {
  readonly purchases: PurchaseEngine;
  readonly cache: ResponseCache;
  readonly freshness: MinimumFreshness;
  readonly waiting: WaitingRequests;
  readonly keyWatch: KeyWatch;
  readonly countUnread: CountUnread;
  readonly exports: ExportOptions;
};

/** Registers a route. Its parameters are checked after the key, the rate limit and the URL. */
export function serve(app: FastifyInstance, route: Route, options: ServeOptions) {
  if (route.kind === 'export') {
    serveExport(app, route, options);
    return;
  }
  const readRequest = createRequestReader(route, options.purchases);
  app.route({
    // Fastify's own HEAD routes would send the Content-Length of a body on a 304.
    method: ['GET', 'HEAD'],
    url: route.url,
    schema: { response: { 200: serializerSchema(route.response) } },
    handler: async (request, reply) => {
      const apiRequest = readRequest(request);
      const format = formatOf(route, request, apiRequest);
      const { body, contentType, asOf, hasMore, entityTag, next } = await respond(
        route,
        { request, apiRequest, format, serialize: serializerOf(reply) },
        options,
      );
      // Before any header of the response is set: its replacement by an error has none.
      if (entityTag === null || !matchesTag(request, entityTag)) {
        options.countUnread(request, reply, body);
      }
      reply.type(contentType);
      if (asOf !== undefined) reply.header('X-Data-As-Of', formatInstant(asOf));
      if (hasMore !== undefined) reply.header('X-Has-More', String(hasMore));
      if (next !== null) reply.header('X-Next-Cursor', next);
      if (next !== null && isList(route)) reply.header('Link', nextPageLink(request, next));
      return reply.send(entityTag === null ? body : conditional(request, reply, entityTag, body));
    },
  });
}

/**
 * Responds as a route does, within another request that has passed the key check and the limits, which count
 * no further request. Rejects with the errors of the route.
 */
export type CallRoute = (
  route: Route,
  given: GivenParameters,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<SerializedResponse<bigint | undefined>>;

/** Responses are JSON. */
export function createRouteCaller(options: ServeOptions): CallRoute {
  const schemas = new Map<Route, Record<string, unknown>>();
  return async (route, given, request, reply) => {
    if (route.kind === 'export') throw new TypeError('an export is no response');
    const apiRequest = readApiRequest(route, options.purchases, request, given);
    // Fastify keeps the serializer of each schema object.
    const schema = schemas.get(route) ?? serializerSchema(route.response);
    schemas.set(route, schema);
    const serialize = reply.compileSerializationSchema(schema) as (body: unknown) => string;
    return respond(route, { request, apiRequest, format: 'json', serialize }, options);
  };
}

/** A request, the format of the response, and the serializer of the route. */
type Incoming = {
  readonly request: FastifyRequest;
  readonly apiRequest: ApiRequest<unknown, unknown>;
  readonly format: FormatName;
  readonly serialize: (body: unknown) => string;
};

async function respond(
  route: Exclude<Route, ExportRoute>,
  incoming: Incoming,
  options: ServeOptions,
): Promise<SerializedResponse<bigint | undefined>> {
  if (route.kind === 'feed') return respondFromFeed(route, incoming, options);
  if (route.kind === 'snapshot') return respondFromSnapshot(route, incoming, options);
  const { apiRequest, format, serialize } = incoming;
  const { spreadsheet } = apiRequest;
  return serializeResult({ route, format, spreadsheet, serialize }, await route.handle(apiRequest));
}

async function respondFromSnapshot(
  route: SnapshotRoute,
  { request, apiRequest, format, serialize }: Incoming,
  { cache, freshness }: ServeOptions,
): Promise<SerializedResponse> {
  const requirement = readFreshnessRequirement(request, apiRequest.purchases);
  await route.require?.(apiRequest);
  return freshness.respondWhenFresh(requirement, async (requireFresh) => {
    const response = await serializeSnapshot(cache, { route, format, serialize, apiRequest });
    requireFresh(response.asOf);
    return response;
  });
}

async function respondFromFeed(
  route: FeedRoute,
  { request, apiRequest, format, serialize }: Incoming,
  { freshness, waiting, keyWatch }: ServeOptions,
): Promise<SerializedResponse> {
  const { feed } = route;
  const { spreadsheet } = apiRequest;
  const { keyId, source } = apiRequest.credential;
  const requirement = readFreshnessRequirement(request, {
    freshness: (organizationId) => feed.freshness(organizationId, source),
    waitUntilFresh: (organizationId, ...rest) =>
      feed.waitUntilFresh(organizationId, source, ...rest),
    // Pages are not cached.
    version: async () => null,
  });
  const waits = route.waitSeconds(apiRequest.query) > 0;
  const slot = waits ? waiting.begin(keyId) : null;
  const key = waits ? keyWatch.begin(keyId) : null;
  const ended = slot && key ? AbortSignal.any([slot.signal, key.signal]) : undefined;
  try {
    return await freshness.respondWhenFresh(requirement, async (requireFresh) => {
      const page = await route.handle(apiRequest, ended);
      key?.signal.throwIfAborted();
      requireFresh(page.asOf);
      return serializeResult({ route, format, spreadsheet, serialize }, page);
    });
  } finally {
    slot?.end();
    key?.end();
  }
}

function serveExport(
  app: FastifyInstance,
  route: ExportRoute,
  { purchases, exports: options, freshness }: ServeOptions,
) {
  const readRequest = createRequestReader(route, purchases);
  app.route({
    method: ['GET', 'HEAD'],
    url: route.url,
    handler: async (request, reply) => {
      const apiRequest = readRequest(request);
      const query = apiRequest.query as { format?: ExportFormatName };
      const format = query.format ?? acceptedFormat(request.headers.accept, exportFormatNames);
      const output = { format, spreadsheet: apiRequest.spreadsheet };
      const exportRequest = { route, output, apiRequest };
      if (!hasMinimumFreshness(route)) {
        return sendExport(request, reply, exportRequest, options, () => {});
      }
      const requirement = readFreshnessRequirement(request, apiRequest.purchases);
      return freshness.respondWhenFresh(requirement, (requireFresh) =>
        sendExport(request, reply, exportRequest, options, requireFresh),
      );
    },
  });
}

/**
 * A link to the next page (RFC 8288). It is relative and only a query, because a proxy may change host
 * and path.
 */
function nextPageLink({ raw }: FastifyRequest, cursor: string): string {
  // Encoded again, because the query string may contain `>` or bytes that no header allows.
  const given = Object.entries(parseQueryString(queryStringOf(raw.url)));
  const query = new URLSearchParams(
    given.flatMap(([name, values]) => values.map((value): [string, string] => [name, value])),
  );
  query.set('starting_after', cursor);
  return `<?${query}>; rel="next"`;
}

/** The parameter `format`, for clients that cannot set headers; otherwise `Accept`. */
function formatOf(
  { table }: Exclude<Route, ExportRoute>,
  request: FastifyRequest,
  { query }: ApiRequest<unknown, unknown>,
): FormatName {
  if (table === undefined) return 'json';
  const { format } = query as { format?: FormatName };
  return format ?? acceptedFormat(request.headers.accept, formatNames);
}

function serializerOf(reply: FastifyReply): (body: unknown) => string {
  const serialize = reply.getSerializationFunction('200');
  if (serialize === undefined) throw new Error('the route has no serializer');
  return serialize as (body: unknown) => string;
}
