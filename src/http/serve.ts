import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { formatInstant } from '../domain/instant.ts';
import type { PurchaseEngine } from '../domain/purchase-engine.ts';
import {
  acceptedExportFormat,
  acceptedFormat,
  type ExportFormatName,
  type FormatName,
  formats,
} from './formats/negotiation.ts';
import { signalOf } from './request/client-disconnect.ts';
import { type FreshAnswers, readAskedFreshness } from './request/minimum-freshness.ts';
import { readParameters } from './request/parameters.ts';
import { parseQueryString, queryStringOf } from './request/query-string.ts';
import { refuseBody } from './request/request-body.ts';
import { ApiError, unknownRoute } from './response/errors.ts';
import { conditional } from './response/etag.ts';
import { writeExactly } from './response/exact-numbers.ts';
import { type Export, type ExportOptions, sendExport } from './response/export.ts';
import { cursorAfter, linkNextPage } from './response/next-page.ts';
import type { FinishedResponse } from './response/response-cache.ts';
import type { SnapshotResponses } from './response/snapshot-responses.ts';
import { serializerSchema } from './response/wire.ts';
import type { Call, ExportRoute, PlainRoute, Route, SnapshotRoute } from './route.ts';

export type ServedFrom = {
  readonly purchases: PurchaseEngine;
  readonly snapshotResponses: SnapshotResponses;
  readonly freshAnswers: FreshAnswers;
  readonly exports: ExportOptions;
};

/**
 * Registers a route. Parameters are refused after the key, the rate limit and the
 * route have been checked: that is the order of refusals.
 */
export function serve(app: FastifyInstance, route: Route, from: ServedFrom) {
  if ('isExport' in route) {
    serveExport(app, route, from);
    return;
  }
  const { url, response, etag } = route;
  app.route({
    // Fastify's own HEAD routes would announce a body's length on a 304.
    method: ['GET', 'HEAD'],
    url,
    schema: { response: { 200: serializerSchema(response) } },
    handler: route.showsSnapshot === true ? respondFromSnapshot(route, from) : respond(route, from),
    onSend: (request, reply, payload: unknown, done) => {
      // Errors repeat what a caller sent, which may look like one of our marks.
      if (reply.statusCode !== 200 || !isWhole(payload)) {
        done(null, payload);
        return;
      }
      const isFinished = route.showsSnapshot === true || typeof payload !== 'string';
      const content = isFinished ? payload : writeExactly(payload);
      done(null, etag ? conditional(request, reply, content) : content);
    },
  });
}

function respond(route: PlainRoute, { purchases }: ServedFrom) {
  const readCall = createCallReader(route, purchases);
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const answer = await route.handle(readCall(request));
    const next = cursorAfter(answer);
    if (next !== null) linkNextPage(request, reply, next);
    return answer;
  };
}

function respondFromSnapshot(
  route: SnapshotRoute,
  { purchases, snapshotResponses, freshAnswers }: ServedFrom,
) {
  const readCall = createCallReader(route, purchases);
  const answer = async (
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<FinishedResponse> => {
    const call = readCall(request);
    const format = formatOf(route, request, call);
    const freshness = readAskedFreshness(request, call.purchases);
    await route.require?.(call);
    const ask = () =>
      snapshotResponses.answer({ route, format, serialize: serializerOf(reply), call });
    return freshness === null ? ask() : freshAnswers.atLeast(freshness, ask);
  };
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { body, contentType, asOf, hasMore, entityTag, next } = await answer(request, reply);
    reply.header('X-Data-As-Of', formatInstant(asOf)).type(contentType);
    if (hasMore !== undefined) reply.header('X-Has-More', String(hasMore));
    if (entityTag !== null) reply.header('ETag', entityTag);
    if (next !== null) linkNextPage(request, reply, next);
    return body;
  };
}

function serveExport(
  app: FastifyInstance,
  route: ExportRoute,
  { purchases, exports: options, freshAnswers }: ServedFrom,
) {
  const { url, name, open } = route;
  const readCall = createCallReader(route, purchases);
  app.route({
    method: ['GET', 'HEAD'],
    url,
    handler: async (request, reply) => {
      const call = readCall(request);
      const asked = readAskedFreshness(request, call.purchases);
      const inQuery = call.query as { format?: ExportFormatName };
      const format = inQuery.format ?? acceptedExportFormat(request.headers.accept);
      const opened: Export = {
        format: formats[format],
        name,
        open: (take, signal) =>
          open(
            call,
            format,
            (file, either) => {
              if (asked !== null) freshAnswers.requireFresh(file.asOf, asked);
              return take(file, either);
            },
            signal,
          ),
      };
      if (asked !== null) await freshAnswers.reach(asked);
      return sendExport(request, reply, opened, options);
    },
  });
}

const isWhole = (payload: unknown): payload is string | Buffer =>
  typeof payload === 'string' || Buffer.isBuffer(payload);

/** What the parameter `format` says, for those who cannot set headers; `Accept` otherwise. */
function formatOf(
  { table }: SnapshotRoute,
  request: FastifyRequest,
  { query }: Call<unknown, unknown>,
): FormatName {
  if (table === undefined) return 'json';
  const { format } = query as { format?: FormatName };
  return format ?? acceptedFormat(request.headers.accept);
}

type Parameters = Pick<Call<unknown, unknown>, 'path' | 'query' | 'question'>;

/** What remembered parameters may take, in characters of their URLs. */
const mostRemembered = 2 ** 20;
const overhead = 512;

/** Parameters are read off the URL alone, and the same few URLs are asked for again and again. */
function createCallReader({ url, path, query }: Route, purchases: PurchaseEngine) {
  const known = new LRUCache<string, Parameters>({
    maxSize: mostRemembered,
    sizeCalculation: (_parameters, asked) => asked.length + overhead,
  });
  const read = (request: FastifyRequest): Parameters => {
    const inPath = readParameters(path, request.params as Record<string, string>);
    const inQuery = readParameters(query, parseQueryString(queryStringOf(request.raw.url)));
    return { path: inPath, query: inQuery, question: nameOf(url, inPath, inQuery) };
  };
  return (request: FastifyRequest): Call<unknown, unknown> => {
    const { credential } = request;
    const asked = request.raw.url ?? '';
    // The router takes it for the end: what follows would be left out of a question unnoticed.
    if (asked.includes('#')) {
      throw new ApiError('invalid_request', 'The URL holds a #; write it as %23.');
    }
    let parameters = known.get(asked);
    if (parameters === undefined) requireNames(request);
    refuseBody(request);
    if (parameters === undefined) {
      parameters = read(request);
      known.set(asked, parameters);
    }
    const { organizationId } = credential;
    return {
      ...parameters,
      purchases: purchases.forSource(credential.source),
      organizationId,
      credential,
      client: `key ${credential.keyId}`,
      get signal() {
        return signalOf(request);
      },
    };
  };
}

/** The router takes `/customers/` for a customer whose id has no characters. */
function requireNames(request: FastifyRequest): void {
  if (Object.values(request.params as object).includes('')) throw unknownRoute(request);
}

/** The same question, however it was written, has the same name. */
function nameOf(url: string, path: unknown, query: unknown): string {
  const parameters = Object.entries({ ...(path as object), ...(query as object) }).sort();
  return JSON.stringify([url, parameters], (_name, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}

function serializerOf(reply: FastifyReply): (answer: unknown) => string {
  const serialize = reply.getSerializationFunction('200');
  if (serialize === undefined) throw new Error('the route has no serializer');
  return serialize as (answer: unknown) => string;
}
