import type { FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../domain/instant.ts';
import { TooManyQuestionsError } from '../domain/purchase-engine.ts';
import { describeDatabaseFailure } from '../postgres/database-failure.ts';
import {
  ApiError,
  errorBody,
  errorStatuses,
  internalError,
  postgresUnavailable,
  tooManyQuestions,
} from './errors.ts';
import { isHangUp } from './hang-up.ts';
import { SilenceError } from './postgres-silence.ts';

/** Logs the route, not the path: that may hold what a caller mistook for one. */
export function logAnswer(request: FastifyRequest, reply: FastifyReply): void {
  const route = routeOf(request);
  const { statusCode: status, elapsedTime } = reply;
  const milliseconds = Math.round(elapsedTime * 100) / 100;
  request.log.info({ method: request.method, route, status, milliseconds }, 'answered');
}

const routeOf = (request: FastifyRequest): string => request.routeOptions.url ?? 'unknown';

export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const told = toldToCaller(error);
  if (told.type === 'internal_error') {
    // Who hung up hears nothing of what was then given up, and nothing failed.
    if (isHangUp(error, request))
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
function toldToCaller(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof TooManyQuestionsError) return tooManyQuestions();
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
