import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../response/errors.ts';

function hasBody({ headers }: FastifyRequest): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  return encoding !== undefined || (length !== undefined && length !== '0');
}

/** Operations take no request body (section 4). */
export function refuseBody(request: FastifyRequest): void {
  if (hasBody(request)) throw new ApiError('invalid_request', 'A GET request takes no body.');
}

/**
 * Closes the connection after the response to a request with a body. No body is read: a
 * keep-alive connection would stay occupied until the client has sent all of it.
 */
export function closeAfterBody(request: FastifyRequest, reply: FastifyReply): void {
  if (hasBody(request)) reply.header('Connection', 'close');
}
