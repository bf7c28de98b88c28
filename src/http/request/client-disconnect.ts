import type { FastifyRequest } from 'fastify';

/** What ends the work for a caller who was gone before there was a signal to tell. */
const disconnected = new Error('the caller hung up');

/**
 * Aborted when nobody waits for the answer any more. Made when it is first asked for: an
 * answer that is at hand needs none.
 */
export const signalOf = (request: FastifyRequest): AbortSignal =>
  request.raw.closed ? AbortSignal.abort(disconnected) : request.signal;

/** Whether something was given up because its caller hung up, and for no other reason. */
export const isClientDisconnect = (error: unknown, { signal }: FastifyRequest): boolean =>
  error === disconnected || (signal.aborted && error === signal.reason);
