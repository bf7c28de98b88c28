import type { FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../../domain/instant.ts';
import { encodeId } from '../../domain/public-id.ts';
import { NoChangeFeedError, UnknownFeedPositionError } from '../../domain/purchase-changes.ts';
import {
  QueryTimeoutError,
  QueueFullError,
  StoreUnavailableError,
} from '../../domain/purchase-engine.ts';
import { describeDatabaseFailure } from '../../postgres/connection/database-failure.ts';
import type { Credential } from '../../postgres/keys/api-keys.ts';
import { removeRateLimitHeaders } from '../auth/rate-limit.ts';
import type { HttpObserver } from '../observer.ts';
import { isClientDisconnect } from '../request/client-disconnect.ts';
import { probes } from '../server/health.ts';
import { SilenceError } from '../server/postgres-silence.ts';
import { ApiError, errorBody, errorStatuses } from './errors.ts';
import type { OutageLog } from './outage-log.ts';

/** Logs and counts a response. Fastify reports none whose client has disconnected. */
export function reportResponse(
  observer: HttpObserver | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  logResponse(request, reply);
  const { statusCode: status, elapsedTime: milliseconds } = reply;
  observer?.responded({ route: routeOf(request), status, milliseconds });
}

/**
 * Logs the route, not the path, which may contain personal data or a secret. Logs organization
 * and key if the key is valid.
 */
function logResponse(request: FastifyRequest, reply: FastifyReply): void {
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
  request.log[route in probes ? 'debug' : 'info'](line, 'request completed');
}

const routeOf = (request: FastifyRequest): string => request.routeOptions.url ?? 'unknown';

/** Receives what an operator must know of failed requests. */
export type FailureReports = {
  readonly observer: HttpObserver | undefined;
  readonly outages: OutageLog;
};

/** Logs and counts an error. Returns what the client sees of it. */
export function reportError(
  { observer, outages }: FailureReports,
  error: unknown,
  request: FastifyRequest,
): ApiError {
  const shown = publicError(error);
  if (shown.limit !== undefined) observer?.limited(shown.limit);
  if (shown.type === 'internal_error') {
    // The abort after a client disconnect is no failure.
    if (isClientDisconnect(error, request)) {
      request.log.info({ method: request.method, route: routeOf(request) }, 'client disconnected');
    } else if (isOutage(error)) outages.add(error, request);
    else request.log.error({ err: error }, 'request failed');
  }
  return shown;
}

export function sendError(
  failures: FailureReports,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const shown = reportError(failures, error, request);
  if (shown.type === 'authentication_error') {
    removeRateLimitHeaders(reply);
    reply.header('WWW-Authenticate', 'Bearer');
  }
  if (shown.retryAfter !== undefined) reply.header('Retry-After', shown.retryAfter);
  if (shown.asOf !== undefined) reply.header('X-Data-As-Of', formatInstant(shown.asOf));
  return reply
    .code(errorStatuses[shown.type])
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(shown, request.id)));
}

/** The error that the client sees. Details of unexpected errors become internal_error. */
function publicError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof QueueFullError) {
    // A slot becomes free when a query ends.
    const details = { retryAfter: 1, limit: 'query_queue' } as const;
    return new ApiError('rate_limited', 'Too many queries are in the queue.', details);
  }
  if (error instanceof QueryTimeoutError || isCanceledByPostgres(error)) {
    const details = { retryAfter: 5, limit: 'query_time' } as const;
    const sentence =
      'The query took too long. Narrow it, for example to a shorter time, or try again later.';
    return new ApiError('rate_limited', sentence, details);
  }
  if (error instanceof UnknownFeedPositionError) {
    const sentence =
      'The changes since this cursor are not known, or not any more. Read the export again, and ' +
      'then the changes since a response without a cursor.';
    return new ApiError('conflict', sentence, { param: 'cursor' });
  }
  if (error instanceof NoChangeFeedError) {
    const sentence =
      'The purchases are not published yet, so there are no changes. Please try again.';
    return new ApiError('conflict', sentence, { retryAfter: 5 });
  }
  const { statusCode, message } = error as { statusCode?: unknown; message?: unknown };
  // Fastify's own errors for malformed requests.
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new ApiError('invalid_request', String(message));
  }
  return new ApiError(
    'internal_error',
    'Something went wrong on our side. Please try again.',
    // Each request tries to connect again, so a retry after a second may succeed.
    isOutage(error) ? { retryAfter: 1 } : {},
  );
}

/** Whether Postgres or ClickHouse is unavailable, or refuses every such request. */
const isOutage = (error: unknown): boolean =>
  error instanceof SilenceError ||
  error instanceof StoreUnavailableError ||
  describeDatabaseFailure(error) !== null;

/** The statement has reached `statement_timeout`, also if it waited for a lock. */
const isCanceledByPostgres = (error: unknown): boolean =>
  (error as { code?: unknown } | null)?.code === '57014';
