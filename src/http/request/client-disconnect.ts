import type { FastifyRequest } from 'fastify';

/** The reason if the client disconnected before a signal existed. */
const disconnected = new Error('the client disconnected');

/** Aborted when the client disconnects. Created on demand, because a cached response needs none. */
export const signalOf = (request: FastifyRequest): AbortSignal =>
  request.raw.closed ? AbortSignal.abort(disconnected) : request.signal;

/** Whether the work ended because the client disconnected. */
export const isClientDisconnect = (error: unknown, { signal }: FastifyRequest): boolean =>
  error === disconnected || (signal.aborted && error === signal.reason);
