import type { FastifyReply, FastifyRequest } from 'fastify';
import { headers } from '../openapi/responses.ts';
import { addVary } from './vary.ts';

/**
 * CORS for listed origins. `@fastify/cors` is not used: its OPTIONS route responds to all
 * origins, but other origins must get the same errors as without CORS.
 */

const allowedMethods = 'GET, HEAD, POST';
/** The last four are those of /mcp. */
const allowedHeaders =
  'Authorization, If-None-Match, X-Min-Data-As-Of, Content-Type, Mcp-Protocol-Version, Mcp-Method, Mcp-Name';
const exposedHeaders = Object.keys(headers).join(', ');
/** The maximum of all browsers. */
const preflightSeconds = 7200;

/** Sets the CORS headers of any response. Returns whether the request is a preflight request. */
export function setCorsHeaders(
  origins: readonly string[],
  request: FastifyRequest,
  reply: FastifyReply,
): boolean {
  if (origins.length === 0) return false;
  addVary(reply, 'Origin');
  const { origin, 'access-control-request-method': method } = request.headers;
  if (origin === undefined || !origins.includes(origin)) return false;
  reply.header('Access-Control-Allow-Origin', origin);
  if (request.method === 'OPTIONS' && method !== undefined) {
    reply
      .header('Access-Control-Allow-Methods', allowedMethods)
      .header('Access-Control-Allow-Headers', allowedHeaders)
      .header('Access-Control-Max-Age', preflightSeconds);
    return true;
  }
  reply.header('Access-Control-Expose-Headers', exposedHeaders);
  return false;
}
