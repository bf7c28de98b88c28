import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from './errors.ts';

/** Counts a body until its client has read it. Throws rate_limited beyond the limit. */
export type CountUnread = (
  request: FastifyRequest,
  reply: FastifyReply,
  body: string | Buffer,
) => void;

/**
 * Bounds the response bodies that the clients of one API key have not read: Node keeps each
 * in memory until then. An uncompressed body counts, because it is in memory while it is
 * compressed. Errors are small, and an export holds one piece at a time, so neither counts.
 */
export function limitUnreadResponses(maxBytesPerKey: number): CountUnread {
  const unreadBytes = new Map<bigint, number>();
  const add = (keyId: bigint, bytes: number) => {
    const sum = (unreadBytes.get(keyId) ?? 0) + bytes;
    if (sum === 0) unreadBytes.delete(keyId);
    else unreadBytes.set(keyId, sum);
  };

  /** By connection, because many pipelined requests may share it. */
  const releasesOf = new WeakMap<Socket, Set<() => void>>();
  const whenClosed = (socket: Socket): Set<() => void> => {
    const known = releasesOf.get(socket);
    if (known !== undefined) return known;
    const releases = new Set<() => void>();
    releasesOf.set(socket, releases);
    socket.once('close', () => {
      for (const release of releases) release();
    });
    return releases;
  };

  return (request, reply, body) => {
    const { socket } = request.raw;
    if (socket.destroyed) return;
    const { keyId } = request.credential;
    const bytes = Buffer.byteLength(body);
    const unread = unreadBytes.get(keyId) ?? 0;
    // One response must always be possible.
    if (unread > 0 && unread + bytes > maxBytesPerKey) throw tooManyUnread(maxBytesPerKey);
    add(keyId, bytes);
    const releases = whenClosed(socket);
    const release = () => {
      if (releases.delete(release)) add(keyId, -bytes);
    };
    releases.add(release);
    reply.raw.once('close', release);
    // A pipelined response that was never begun emits no `close`. A request whose body was read is
    // closed before the response. So the socket's `close` counts.
  };
}

const tooManyUnread = (maxBytes: number): ApiError =>
  new ApiError(
    'rate_limited',
    `The clients of this API key have not read responses of ${maxBytes} bytes in all, which is the ` +
      'limit. Read the responses that are being sent, or request fewer at the same time.',
    { retryAfter: 1, limit: 'unread_responses' },
  );
