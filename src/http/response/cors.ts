import type { FastifyReply, FastifyRequest } from 'fastify';
import { addVary } from './vary.ts';

/**
 * Lets pages of listed origins read answers. Of our own, because @fastify/cors answers
 * OPTIONS by a route for all origins: whoever is not listed would no longer be refused
 * as with CORS off, key first.
 */

const allowedMethods = 'GET, HEAD';
// Browsers send the key, and tags, only where they are told that they may.
const allowedHeaders = 'Authorization, If-None-Match, X-Min-Data-As-Of';
const exposedHeaders =
  'Content-Disposition, ETag, Link, Request-Id, Retry-After, WWW-Authenticate, X-Data-As-Of, ' +
  'X-Has-More, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset';
/** As long as any browser believes it. */
const preflightSeconds = 7200;

/**
 * Writes what a browser must know of a request's answer, whatever that will be. Says
 * whether the request was only a browser's question whether it may ask.
 */
export function admitOrigin(
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
