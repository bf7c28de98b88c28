import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { ApiError } from './errors.ts';
import { conditional } from './etag.ts';
import { readParameters } from './parameters.ts';
import { parseQueryString } from './query-string.ts';
import { jsonSchema } from './wire.ts';

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

export type Resource<
  Path extends z.ZodType,
  Query extends z.ZodType,
  Response extends z.ZodType,
> = {
  /** Below /v1, with parameters as `:name`. */
  readonly url: string;
  /** One line for the API's reference. */
  readonly summary: string;
  readonly path: Path;
  readonly query: Query;
  readonly response: Response;
  /** Single-resource and aggregate responses carry an ETag (section 4.5); lists do not. */
  readonly etag: boolean;
  handle(call: Call<z.output<Path>, z.output<Query>>): Promise<z.output<Response>>;
};

/**
 * Registers a resource. Parameters are read after the key, the rate limit and
 * the route have been checked: that is the order of refusals.
 */
export function serve<Path extends z.ZodType, Query extends z.ZodType, Response extends z.ZodType>(
  app: FastifyInstance,
  resource: Resource<Path, Query, Response>,
): void {
  app.route({
    // Fastify's own HEAD routes would announce a body's length on a 304.
    method: ['GET', 'HEAD'],
    url: resource.url,
    schema: { response: { 200: jsonSchema(resource.response) } },
    handler: async (request, reply) => {
      refuseBody(request);
      const path = readParameters(resource.path, request.params as Record<string, string>);
      const queryString = /\?(.*)$/s.exec(request.raw.url ?? '')?.[1] ?? '';
      const query = readParameters(resource.query, parseQueryString(queryString));
      const { organizationId } = request.credential;
      const { signal } = request;
      return resource.handle({ path, query, organizationId, request, reply, signal });
    },
    ...(resource.etag
      ? {
          onSend: async (request, reply, payload) =>
            typeof payload === 'string' ? conditional(request, reply, payload) : payload,
        }
      : {}),
  });
}

/** Operations take no request body (section 4). */
function refuseBody(request: FastifyRequest): void {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (encoding === undefined && (length === undefined || length === '0')) return;
  throw new ApiError('invalid_request', 'A GET request takes no body.');
}
