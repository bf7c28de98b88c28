import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ApiError } from './response/errors.ts';
import type { CountUnread } from './response/unread-responses.ts';
import type { Route } from './route.ts';
import type { CallRoute } from './serve.ts';

/** What routes outside /v1 may use of those under /v1. */
export type RouteAccess = {
  /** Under /v1, in the order of the reference. */
  readonly routes: readonly Route[];
  readonly call: CallRoute;
  /** Logs and counts an error as of a request. Returns what the client sees of it. */
  readonly report: (error: unknown, request: FastifyRequest) => ApiError;
  readonly countUnread: CountUnread;
  /** Of other sites whose pages may call the API. */
  readonly corsOrigins: readonly string[];
};

/** Registers routes outside /v1. As under /v1, each request passes the key check and counts once. */
export type KeyRoutes = (app: FastifyInstance, access: RouteAccess) => void;
