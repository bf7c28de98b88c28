import type { FastifyReply, FastifyRequest } from 'fastify';

/** The reason if the client disconnected before a signal existed. */
const disconnected = new Error('the client disconnected');

/** Of requests whose body was read: Node closes these requests before the response. */
const responseSignals = new WeakMap<FastifyRequest, AbortSignal>();

/** Must be called after the body of a request was read, so that `signalOf` is right. */
export function watchResponse(request: FastifyRequest, { raw }: FastifyReply): void {
  const controller = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort(disconnected);
  });
  responseSignals.set(request, controller.signal);
}

/** Aborted when the client disconnects. Created on demand, because a cached response needs none. */
export const signalOf = (request: FastifyRequest): AbortSignal =>
  responseSignals.get(request) ??
  (request.raw.closed ? AbortSignal.abort(disconnected) : request.signal);

/** Whether the work ended because the client disconnected. */
export const isClientDisconnect = (error: unknown, { signal }: FastifyRequest): boolean =>
  error === disconnected || (signal.aborted && error === signal.reason);
