import type { FastifyReply, FastifyRequest } from 'fastify';
import { addVary } from './vary.ts';

/**
 * CORS for listed origins. `@fastify/cors` does not serve here: its OPTIONS route responds to all
 * origins, but other origins must get the same errors as without CORS.
 */

const allowedMethods = 'GET, HEAD';
const allowedHeaders = 'Authorization, If-None-Match, X-Min-Data-As-Of';
const exposedHeaders =
  'Content-Disposition, ETag, Link, Request-Id, Retry-After, WWW-Authenticate, X-Data-As-Of, ' +
  'X-Has-More, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset';
/** The maximum of all browsers. */
const preflightSeconds = 7200;

/** Sets the CORS headers of any response, and returns whether the request is a preflight request. */
export function setCorsHeaders(
  origins: readonly string[],
  request: FastifyRequest,
  reply: FastifyReply,
): { readonly isPreflight: boolean } {
  if (origins.length === 0) return { isPreflight: false };
  addVary(reply, 'Origin');
  const { origin, 'access-control-request-method': method } = request.headers;
  if (origin === undefined || !origins.includes(origin)) return { isPreflight: false };
  reply.header('Access-Control-Allow-Origin', origin);
  if (request.method === 'OPTIONS' && method !== undefined) {
    reply
      .header('Access-Control-Allow-Methods', allowedMethods)
      .header('Access-Control-Allow-Headers', allowedHeaders)
      .header('Access-Control-Max-Age', preflightSeconds);
    return { isPreflight: true };
  }
  reply.header('Access-Control-Expose-Headers', exposedHeaders);
  return { isPreflight: false };
}
