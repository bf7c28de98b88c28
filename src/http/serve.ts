import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { Askers } from '../domain/askers.ts';
import { formatInstant } from '../domain/instant.ts';
import { askerOf, type DatedAnswers } from './dated-answers.ts';
import { ApiError, unknownRoute } from './errors.ts';
import { conditional } from './etag.ts';
import { writeExactly } from './exact-numbers.ts';
import { type Export, type ExportOptions, sendExport } from './export.ts';
import {
  acceptedExportFormat,
  acceptedFormat,
  type ExportFormatName,
  type FormatName,
  formats,
} from './formats/negotiation.ts';
import { type FreshAnswers, readMinimumAsOf } from './minimum-as-of.ts';
import { cursorAfter, linkNextPage } from './next-page.ts';
import { readParameters } from './parameters.ts';
import { parseQueryString, queryStringOf } from './query-string.ts';
import type { Call, ExportRoute, Route } from './route.ts';
import { serializerSchema } from './wire.ts';

export type ServedFrom = {
  readonly datedAnswers: DatedAnswers;
  readonly freshAnswers: FreshAnswers;
  readonly exports: ExportOptions;
};

/**
 * Registers a route. Parameters are read after the key, the rate limit and the
 * route have been checked: that is the order of refusals.
 */
export function serve(
  app: FastifyInstance,
  route: Route,
  { datedAnswers, freshAnswers, exports }: ServedFrom,
) {
  if ('isExport' in route) {
    serveExport(app, route, exports, freshAnswers);
    return;
  }
  const { url, path, query, response, etag } = route;
  app.route({
    // Fastify's own HEAD routes would announce a body's length on a 304.
    method: ['GET', 'HEAD'],
    url,
    schema: { response: { 200: serializerSchema(response) } },
    handler: async (request, reply) => {
      const call = readCall(request, path, query);
      if (route.isDated !== true) {
        const answer = await route.handle(call);
        const next = cursorAfter(answer);
        if (next !== null) linkNextPage(request, reply, next);
        return answer;
      }
      const minimum = readMinimumAsOf(request);
      const asking = { organizationId: call.organizationId, request, reply };
      const format = route.table === undefined ? 'json' : formatOf(request, call);
      await route.require?.(call);
      const answer = () => datedAnswers.answer(route, format, serializerOf(reply), call);
      const finished =
        minimum === null
          ? await answer()
          : await freshAnswers.atLeast({ minimum, ...asking }, answer);
      reply
        .header('X-Data-As-Of', formatInstant(finished.asOf))
        .type(format === 'json' ? 'application/json; charset=utf-8' : formats[format].contentType);
      if (finished.hasMore !== undefined) reply.header('X-Has-More', String(finished.hasMore));
      if (finished.entityTag !== null) reply.header('ETag', finished.entityTag);
      if (finished.next !== null) linkNextPage(request, reply, finished.next);
      return finished.body;
    },
    onSend: async (request, reply, payload) => {
      // Errors repeat what a caller sent, which may look like one of our marks.
      if (reply.statusCode !== 200 || !isWhole(payload)) return payload;
      const isFinished = route.isDated === true || typeof payload !== 'string';
      const content = isFinished ? payload : writeExactly(payload);
      return etag ? conditional(request, reply, content) : content;
    },
  });
}

function serveExport(
  app: FastifyInstance,
  { url, path, query: parameters, name, open }: ExportRoute,
  options: ExportOptions,
  freshAnswers: FreshAnswers,
) {
  app.route({
    method: ['GET', 'HEAD'],
    url,
    handler: async (request, reply) => {
      const call = readCall(request, path, parameters);
      const minimum = readMinimumAsOf(request);
      const { organizationId } = call;
      const asked = minimum === null ? null : { minimum, organizationId, request, reply };
      const query = call.query as { format?: ExportFormatName };
      const format = query.format ?? acceptedExportFormat(request.headers.accept);
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
function formatOf(request: FastifyRequest, { query }: Call<unknown, unknown>): FormatName {
  const { format } = query as { format?: FormatName };
  return format ?? acceptedFormat(request.headers.accept);
}

function readCall(
  request: FastifyRequest,
  path: z.ZodType,
  query: z.ZodType,
): Call<unknown, unknown> {
  const parameters = request.params as Record<string, string>;
  // The router takes `/customers/` for a customer whose id has no characters.
  if (Object.values(parameters).includes('')) throw unknownRoute(request);
  refuseBody(request);
  const { credential, signal } = request;
  return {
    path: readParameters(path, parameters),
    query: readParameters(query, parseQueryString(queryStringOf(request.raw.url))),
    organizationId: credential.organizationId,
    credential,
    signal,
    askers: new Askers(askerOf(request)),
  };
}

function serializerOf(reply: FastifyReply): (answer: unknown) => string {
  const serialize = reply.getSerializationFunction('200');
  if (serialize === undefined) throw new Error('the route has no serializer');
  return serialize as (answer: unknown) => string;
}

/** Operations take no request body (section 4). */
function refuseBody(request: FastifyRequest): void {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (encoding === undefined && (length === undefined || length === '0')) return;
  throw new ApiError('invalid_request', 'A GET request takes no body.');
}
