import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../domain/instant.ts';
import type { PurchaseEngine } from '../domain/purchase-engine.ts';
import {
  acceptedFormat,
  type ExportFormatName,
  exportFormatNames,
  type FormatName,
  formatNames,
} from './formats/negotiation.ts';
import { signalOf } from './request/client-disconnect.ts';
import { type MinimumFreshness, readFreshnessRequirement } from './request/minimum-freshness.ts';
import { parseQueryString, queryStringOf, readParameters } from './request/parameters.ts';
import { refuseBody } from './request/request-body.ts';
import { ApiError, unknownRoute } from './response/errors.ts';
import { conditional } from './response/etag.ts';
import { writeExactly } from './response/exact-numbers.ts';
import { type ExportOptions, sendExport } from './response/export.ts';
import { setNextPage, setPageHeaders } from './response/page-headers.ts';
import { type ResponseCache, serializeSnapshot, writeContent } from './response/response-cache.ts';
import type { WaitingRequests } from './response/waiting-requests.ts';
import { serializerSchema } from './response/wire.ts';
import {
  type ApiRequest,
  type ExportRoute,
  type FeedRoute,
  hasEtag,
  type PlainRoute,
  type Route,
  type SnapshotRoute,
} from './route.ts';

type ServeOptions = {
  readonly purchases: PurchaseEngine;
  readonly cache: ResponseCache;
  readonly freshness: MinimumFreshness;
  readonly waiting: WaitingRequests;
  readonly exports: ExportOptions;
};

/** Registers a route. Its parameters are checked after the key, the rate limit and the URL. */
export function serve(app: FastifyInstance, route: Route, options: ServeOptions) {
  if ('isExport' in route) {
    serveExport(app, route, options);
    return;
  }
  const { url, response } = route;
  const isConditional = hasEtag(route);
  const isSerialized = route.showsSnapshot === true || route.isFeed === true;
  app.route({
    // Fastify's own HEAD routes would send the Content-Length of a body on a 304.
    method: ['GET', 'HEAD'],
    url,
    schema: { response: { 200: serializerSchema(response) } },
    handler: handlerOf(route, options),
    onSend: (request, reply, payload: unknown, done) => {
      // An error may repeat text of the request that looks like a marked number.
      if (reply.statusCode !== 200 || !(typeof payload === 'string' || Buffer.isBuffer(payload))) {
        done(null, payload);
        return;
      }
      const isFinal = isSerialized || typeof payload !== 'string';
      const content = isFinal ? payload : writeExactly(payload);
      done(null, isConditional ? conditional(request, reply, content) : content);
    },
  });
}

function handlerOf(route: Exclude<Route, ExportRoute>, options: ServeOptions) {
  if (route.isFeed === true) return feedHandler(route, options);
  return route.showsSnapshot === true
    ? snapshotHandler(route, options)
    : plainHandler(route, options);
}

function plainHandler(route: PlainRoute, { purchases }: ServeOptions) {
  const readRequest = createRequestReader(route, purchases);
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const body = await route.handle(readRequest(request));
    setPageHeaders(request, reply, body);
    return body;
  };
}

function snapshotHandler(route: SnapshotRoute, { purchases, cache, freshness }: ServeOptions) {
  const readRequest = createRequestReader(route, purchases);
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const apiRequest = readRequest(request);
    const format = formatOf(route, request, apiRequest);
    const requirement = readFreshnessRequirement(request, apiRequest.purchases);
    await route.require?.(apiRequest);
    const serialize = serializerOf(reply);
    const respond = () => serializeSnapshot(cache, { route, format, serialize, apiRequest });
    const { body, contentType, asOf, hasMore, entityTag, next } =
      requirement === null
        ? await respond()
        : await freshness.respondWhenFresh(requirement, async (requireFresh) => {
            const response = await respond();
            requireFresh(response.asOf);
            return response;
          });
    reply.header('X-Data-As-Of', formatInstant(asOf)).type(contentType);
    if (hasMore !== undefined) reply.header('X-Has-More', String(hasMore));
    if (entityTag !== null) reply.header('ETag', entityTag);
    setNextPage(request, reply, next);
    return body;
  };
}

function feedHandler(route: FeedRoute, { purchases, freshness, waiting }: ServeOptions) {
  const readRequest = createRequestReader(route, purchases);
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const apiRequest = readRequest(request);
    const format = formatOf(route, request, apiRequest);
    const feed = route.feed();
    const { keyId, source } = apiRequest.credential;
    const requirement = readFreshnessRequirement(request, {
      freshness: (organizationId) => feed.freshness(organizationId, source),
      waitUntilFresh: (organizationId, ...rest) =>
        feed.waitUntilFresh(organizationId, source, ...rest),
      // Pages are not cached.
      version: async () => null,
    });
    const slot = route.waitSeconds(apiRequest.query) > 0 ? waiting.begin(keyId) : null;
    const respond = () => route.handle(apiRequest, feed, slot?.signal);
    try {
      const { result, asOf } =
        requirement === null
          ? await respond()
          : await freshness.respondWhenFresh(requirement, async (requireFresh) => {
              const page = await respond();
              requireFresh(page.asOf);
              return page;
            });
      const { body, contentType, hasMore } = writeContent(
        route.table,
        format,
        serializerOf(reply),
        result,
      );
      reply.header('X-Data-As-Of', formatInstant(asOf)).type(contentType);
      reply.header('X-Next-Cursor', (result as { next_cursor: string }).next_cursor);
      if (hasMore !== undefined) reply.header('X-Has-More', String(hasMore));
      return body;
    } finally {
      slot?.end();
    }
  };
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
      const requirement = readFreshnessRequirement(request, apiRequest.purchases);
      const query = apiRequest.query as { format?: ExportFormatName };
      const format = query.format ?? acceptedFormat(request.headers.accept, exportFormatNames);
      const exportRequest = { route, format, apiRequest };
      const send = (requireFresh?: (asOf: bigint) => void) =>
        sendExport(request, reply, exportRequest, options, requireFresh);
      return requirement === null ? send() : freshness.respondWhenFresh(requirement, send);
    },
  });
}

/** The parameter `format`, for clients that cannot set headers; otherwise `Accept`. */
function formatOf(
  { table }: SnapshotRoute | FeedRoute,
  request: FastifyRequest,
  { query }: ApiRequest<unknown, unknown>,
): FormatName {
  if (table === undefined) return 'json';
  const { format } = query as { format?: FormatName };
  return format ?? acceptedFormat(request.headers.accept, formatNames);
}

function createRequestReader({ url, path, query }: Route, purchases: PurchaseEngine) {
  return (request: FastifyRequest): ApiRequest<unknown, unknown> => {
    const { credential } = request;
    const rawUrl = request.raw.url ?? '';
    // The router ends the URL at a #, and would ignore the parameters after it.
    if (rawUrl.includes('#')) {
      throw new ApiError('invalid_request', 'The URL holds a #; write it as %23.');
    }
    requirePathParameters(request);
    refuseBody(request);
    const pathParameters = readParameters(path, request.params as Record<string, string>);
    const queryParameters = readParameters(query, parseQueryString(queryStringOf(rawUrl)));
    return {
      path: pathParameters,
      query: queryParameters,
      cacheKey: cacheKeyOf(url, pathParameters, queryParameters),
      purchases: purchases.forSource(credential.source),
      organizationId: credential.organizationId,
      credential,
      client: `key ${credential.keyId}`,
      get signal() {
        return signalOf(request);
      },
    };
  };
}

/** For the router, `/customers/` is a customer with an empty id. */
function requirePathParameters(request: FastifyRequest): void {
  if (Object.values(request.params as object).includes('')) throw unknownRoute(request);
}

/** The same key for the same values in any order and spelling. */
function cacheKeyOf(url: string, path: unknown, query: unknown): string {
  const parameters = Object.entries({ ...(path as object), ...(query as object) }).sort();
  return JSON.stringify([url, parameters], (_name, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}

function serializerOf(reply: FastifyReply): (body: unknown) => string {
  const serialize = reply.getSerializationFunction('200');
  if (serialize === undefined) throw new Error('the route has no serializer');
  return serialize as (body: unknown) => string;
}
