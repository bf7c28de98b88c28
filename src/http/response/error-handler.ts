import type { FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../../domain/instant.ts';
import { encodeId } from '../../domain/public-id.ts';
import { QueueFullError } from '../../domain/purchase-engine.ts';
import type { Credential } from '../../postgres/api-keys.ts';
import { describeDatabaseFailure } from '../../postgres/database-failure.ts';
import { isClientDisconnect } from '../request/client-disconnect.ts';
import { probes } from '../server/health.ts';
import { SilenceError } from '../server/postgres-silence.ts';
import {
  ApiError,
  errorBody,
  errorStatuses,
  internalError,
  postgresUnavailable,
  tooManyQuestions,
} from './errors.ts';

/**
 * Logs the route, not the path: a path may hold personal data or a secret. Organization and
 * key are in the line if the key is valid.
 */
export function logAnswer(request: FastifyRequest, reply: FastifyReply): void {
  const route = routeOf(request);
  const { statusCode: status, elapsedTime } = reply;
  const milliseconds = Math.round(elapsedTime * 100) / 100;
  const credential: Credential | null = request.credential;
  const line = {
    ...{ method: request.method, route, status, milliseconds },
    ...(credential && {
      organization: encodeId('organization', credential.organizationId),
      key: encodeId('api_key', credential.keyId),
    }),
  };
  // A load balancer probes every few seconds.
  request.log[route in probes ? 'debug' : 'info'](line, 'answered');
}

const routeOf = (request: FastifyRequest): string => request.routeOptions.url ?? 'unknown';

export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const told = publicError(error);
  if (told.type === 'internal_error') {
    // Who hung up hears nothing of what was then given up, and nothing failed.
    if (isClientDisconnect(error, request))
      request.log.info({ method: request.method, route: routeOf(request) }, 'hung up');
    else request.log.error({ err: error }, 'failed');
  }
  if (told.type === 'authentication_error') reply.header('WWW-Authenticate', 'Bearer');
  if (told.retryAfter !== undefined) reply.header('Retry-After', told.retryAfter);
  if (told.asOf !== undefined) reply.header('X-Data-As-Of', formatInstant(told.asOf));
  return reply
    .code(errorStatuses[told.type])
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(told, request.id)));
}

/** What a caller may know about an error; what it may not becomes internal_error. */
function publicError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof QueueFullError) return tooManyQuestions();
  const { statusCode, message } = error as { statusCode?: unknown; message?: unknown };
  // Fastify's own refusals of malformed requests.
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new ApiError('invalid_request', String(message));
  }
  if (error instanceof SilenceError || describeDatabaseFailure(error) !== null) {
    return postgresUnavailable();
  }
  return internalError();
}
