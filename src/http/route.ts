import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { ApiError, unknownRoute } from './errors.ts';
import { conditional } from './etag.ts';
import { writeExactly } from './exact-numbers.ts';
import { readParameters } from './parameters.ts';
import { parseQueryString } from './query-string.ts';
import type { Services } from './services.ts';
import { serializerSchema } from './wire.ts';

/** What a handler is told: its parameters, validated, and whom it answers. */
export type Call<Path, Query> = {
  readonly path: Path;
  readonly query: Query;
  /** From the key, and from nowhere else. */
  readonly organizationId: bigint;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Aborted when the client hangs up. */
  readonly signal: AbortSignal;
};

/** A route below /v1, as data: what registers it also describes it. */
export type Route<
  Path extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Response extends z.ZodType = z.ZodType,
> = {
  /** Below /v1, with parameters as `:name`. */
  readonly url: string;
  /** One line for the API's reference. */
  readonly summary: string;
  /** Beyond the specification; said so in the reference. */
  readonly isAddition?: boolean;
  readonly path: Path;
  readonly query: Query;
  readonly response: Response;
  /** Single-resource and aggregate responses carry an ETag (section 4.5); lists do not. */
  readonly etag: boolean;
  /** Purchase answers say which instant they show. */
  readonly isDated?: boolean;
  handle(call: Call<z.output<Path>, z.output<Query>>): Promise<z.output<Response>>;
};

/** What a resource's file exports: its routes, over what they are served from. */
export type ResourceRoutes = (services: Services) => readonly Route[];

/** A route whose handler is checked against its own schemas. */
export function route<Path extends z.ZodType, Query extends z.ZodType, Response extends z.ZodType>(
  definition: Route<Path, Query, Response>,
): Route {
  return definition as unknown as Route;
}

/**
 * Registers a route. Parameters are read after the key, the rate limit and the
 * route have been checked: that is the order of refusals.
 */
export function serve(app: FastifyInstance, { url, path, query, response, etag, handle }: Route) {
  app.route({
    // Fastify's own HEAD routes would announce a body's length on a 304.
    method: ['GET', 'HEAD'],
    url,
    schema: { response: { 200: serializerSchema(response) } },
    handler: async (request, reply) => {
      const parameters = request.params as Record<string, string>;
      // The router takes `/customers/` for a customer whose id has no characters.
      if (Object.values(parameters).includes('')) throw unknownRoute(request);
      refuseBody(request);
      const queryString = /\?(.*)$/s.exec(request.raw.url ?? '')?.[1] ?? '';
      return handle({
        path: readParameters(path, parameters),
        query: readParameters(query, parseQueryString(queryString)),
        organizationId: request.credential.organizationId,
        request,
        reply,
        signal: request.signal,
      });
    },
    onSend: async (request, reply, payload) => {
      // Errors repeat what a caller sent, which may look like one of our marks.
      if (reply.statusCode !== 200 || typeof payload !== 'string') return payload;
      const content = writeExactly(payload);
      return etag ? conditional(request, reply, content) : content;
    },
  });
}

/** Operations take no request body (section 4). */
function refuseBody(request: FastifyRequest): void {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (encoding === undefined && (length === undefined || length === '0')) return;
  throw new ApiError('invalid_request', 'A GET request takes no body.');
}
