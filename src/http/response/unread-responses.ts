import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import type { Credential } from '../../postgres/api-keys.ts';
import { ApiError } from './errors.ts';

/** Headers of a 200 that its replacement must not have. */
const contentHeaders = [
  'Content-Disposition',
  'ETag',
  'Link',
  'X-Data-As-Of',
  'X-Has-More',
  'X-Next-Cursor',
];

/**
 * Bounds the response bodies that the clients of one API key have not read: Node keeps each
 * in memory until then. Applies to routes registered from now on. Register before compression:
 * an uncompressed body is in memory while it is compressed. Streams are not counted, because
 * an export holds one piece at a time.
 */
export function limitUnreadResponses(app: FastifyInstance, maxBytesPerKey: number): void {
  const unreadBytes = new Map<bigint, number>();
  const add = (keyId: bigint, bytes: number) => {
    const sum = (unreadBytes.get(keyId) ?? 0) + bytes;
    if (sum === 0) unreadBytes.delete(keyId);
    else unreadBytes.set(keyId, sum);
  };

  const limit = (
    request: FastifyRequest,
    reply: FastifyReply,
    body: unknown,
    done: (error: Error | null, body?: unknown) => void,
  ): void => {
    const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? Buffer.byteLength(body) : 0;
    // Null without a valid key. A closed request emits no further `close`.
    const credential: Credential | null = request.credential;
    if (credential === null || bytes === 0 || request.raw.destroyed) {
      done(null, body);
      return;
    }
    const { keyId } = credential;
    const unread = unreadBytes.get(keyId) ?? 0;
    // An error is small, and one response must always be possible.
    if (reply.statusCode < 400 && unread > 0 && unread + bytes > maxBytesPerKey) {
      for (const name of contentHeaders) reply.removeHeader(name);
      done(tooManyUnread(maxBytesPerKey));
      return;
    }
    add(keyId, bytes);
    let isCounted = true;
    const release = () => {
      if (isCounted) add(keyId, -bytes);
      isCounted = false;
    };
    reply.raw.once('close', release);
    // A pipelined response that was never begun emits no `close`; its request does.
    request.raw.once('close', release);
    done(null, body);
  };

  app.addHook('onRoute', (route: RouteOptions) => {
    route.onSend = [route.onSend ?? [], limit].flat() as (typeof limit)[];
  });
}

const tooManyUnread = (maxBytes: number): ApiError =>
  new ApiError(
    'rate_limited',
    `The clients of this API key have not read responses of ${maxBytes} bytes in all, which is the ` +
      'limit. Read the responses that are being sent, or request fewer at the same time.',
    { retryAfter: 1, limit: 'unread_responses' },
  );
