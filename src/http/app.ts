import type { Server } from 'node:http';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Database } from '../postgres/connection/pool.ts';
import { apiRights } from '../postgres/schema/schema.ts';
import type { TurnQueue } from '../queue/turn-queue.ts';
import type { Settings } from '../settings/settings.ts';
import { type Authorize, createAuthorize } from './auth/authentication.ts';
import { createKeyUses } from './auth/key-uses.ts';
import { createKeyWatch } from './auth/key-watch.ts';
import type { KeyRoutes } from './key-routes.ts';
import type { HttpObserver } from './observer.ts';
import { reference } from './openapi/reference.ts';
import { closeAfterBody } from './request/api-request.ts';
import {
  handleClientError,
  hostError,
  newRequestId,
  refuseUnsupported,
} from './request/malformed-requests.ts';
import { createMinimumFreshness, type MinimumFreshness } from './request/minimum-freshness.ts';
import type { ResourceServices } from './resource-services.ts';
import { compressResponses } from './response/compression.ts';
import { setCorsHeaders } from './response/cors.ts';
import {
  type FailureReports,
  reportError,
  reportResponse,
  sendError,
} from './response/error-handler.ts';
import { ApiError, unknownRoute } from './response/errors.ts';
import { createExportSlots } from './response/export-slots.ts';
import { createOutageLog } from './response/outage-log.ts';
import { createResponseCache } from './response/response-cache.ts';
import { securityHeaders } from './response/security-headers.ts';
import { limitUnreadResponses } from './response/unread-responses.ts';
import { createWaitingRequests, type WaitingRequests } from './response/waiting-requests.ts';
import type { ResourceRoutes, Route } from './route.ts';
import { createRouteCaller, serve } from './serve.ts';
import { closeStalledConnections, limitConnections } from './server/connections.ts';
import { serveHalfClosedConnections } from './server/half-closed-connections.ts';
import { health } from './server/health.ts';
import { closeConnectionsAtShutdown, trackResponses } from './server/responses-in-flight.ts';

export type AppOptions = Settings & {
  /** Every resource under /v1. */
  readonly resources: readonly ResourceRoutes[];
  /** Further routes that require a key. */
  readonly keyRoutes?: KeyRoutes;
  readonly services: ResourceServices;
  /** For key checks only, so that slow lists cannot occupy its connections. */
  readonly keyDatabase: Database;
  /** The queue of key checks. */
  readonly keyTurns?: TurnQueue;
  readonly log: FastifyBaseLogger;
  readonly observer?: HttpObserver;
  /** The earliest tick of a worker whose organizations are served; null if no files are read. */
  readonly oldestTickAsOf?: () => bigint | null;
  /** Why the store of purchases cannot be used; null if it can. */
  readonly findStoreProblem?: () => Promise<string | null>;
  /** Between two checks of keys whose responses take long. */
  readonly keyWatchIntervalMs?: number;
  /** The time in which a client must send a request. */
  readonly requestTimeoutMs?: number;
};

/** The HTTP API, built but not listening. */
export function createApp(options: AppOptions): FastifyInstance {
  const { services, rateLimitStore, trustedProxies, log, observer } = options;
  const routes = options.resources.flatMap((resource) => resource(services));
  const freshness = createMinimumFreshness(options.freshnessWaitMs);
  const waiting = createWaitingRequests();
  const keyUses = createKeyUses(options.keyDatabase, log);
  const { keyTurns } = options;
  const authorize = createAuthorize(options.keyDatabase, options, { keyUses, observer, keyTurns });
  const failures = { observer, outages: createOutageLog(log) };
  const app = Fastify(serverOptions(options, authorize, failures));
  addHooks(app, options.corsOrigins, observer);
  const isIdle = trackResponses(app.server);
  app.addHook('preClose', async () => {
    freshness.stopWaiting();
    waiting.stop();
    closeConnectionsAtShutdown(app.server, isIdle, options.shutdownTimeoutMs);
  });
  app.addHook('onClose', keyUses.close);
  app.addHook('onClose', async () => failures.outages.close());
  // No operation under /v1 takes a body (section 4), so none is parsed.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  app.setErrorHandler((error, request, reply) => sendError(failures, error, request, reply));
  app.setNotFoundHandler(refuseRoute);
  // Node would drop headers beyond the 2,000th, such as Host. Their size is limited.
  app.server.maxHeadersCount = 0;
  refuseUnsupported(app.server);
  closeStalledConnections(app.server);
  serveHalfClosedConnections(app.server);
  limitConnections(app.server, {
    perAddress: options.connectionsPerAddress,
    exempt: trustedProxies,
    log,
  });
  compressResponses(app);
  const { keyDatabase, databaseSilenceMs, readyMaxLagMs } = options;
  app.register(health, {
    ...{ keyDatabase, databaseSilenceMs, readyMaxLagMs, rights: apiRights(rateLimitStore) },
    oldestTickAsOf: options.oldestTickAsOf ?? (() => null),
    findStoreProblem: options.findStoreProblem ?? (async () => null),
  });
  app.register(reference, { routes });
  registerKeyRoutes(app, options, { routes, authorize, freshness, waiting, failures });
  return app;
}

type KeyRouteParts = {
  readonly routes: readonly Route[];
  readonly authorize: Authorize;
  readonly freshness: MinimumFreshness;
  readonly waiting: WaitingRequests;
  readonly failures: FailureReports;
};

/** Registers the routes that require a key. */
function registerKeyRoutes(app: FastifyInstance, options: AppOptions, parts: KeyRouteParts): void {
  const { observer } = options;
  const { routes, authorize, freshness, waiting, failures } = parts;
  const keyWatch = createKeyWatch(options.keyDatabase, options.keyWatchIntervalMs);
  const serveOptions = {
    keyWatch,
    purchases: options.services.purchases,
    cache: createResponseCache(options.responseCacheBytes, observer),
    freshness,
    waiting,
    countUnread: limitUnreadResponses(options.unreadBytesPerKey),
    exports: {
      keyWatch,
      takeSlot: createExportSlots({
        perKey: options.exportsPerKey,
        total: options.exportConcurrency,
      }),
      stalledAfterMs: options.queryTimeoutMs,
      observer,
    },
  };
  app.register(
    async (v1) => {
      v1.addHook('onRequest', authorize);
      // Within the prefix, so that an unknown route requires a key as well.
      v1.setNotFoundHandler(refuseRoute);
      for (const route of routes) serve(v1, route, serveOptions);
    },
    { prefix: '/v1' },
  );
  app.register(async (scope) => {
    scope.addHook('onRequest', authorize);
    options.keyRoutes?.(scope, {
      routes,
      call: createRouteCaller(serveOptions),
      report: (error, request) => reportError(failures, error, request),
      countUnread: serveOptions.countUnread,
      corsOrigins: options.corsOrigins,
    });
  });
}

const defaultRequestTimeoutMs = 10_000;

function serverOptions(
  options: AppOptions,
  authorize: Authorize,
  failures: FailureReports,
): FastifyHttpOptions<Server> {
  const { log, corsOrigins, trustedProxies } = options;
  const requestTimeoutMs = options.requestTimeoutMs ?? defaultRequestTimeoutMs;
  return {
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: newRequestId,
    trustProxy: trustedProxies.length === 0 ? false : [...trustedProxies],
    requestIdHeader: false,
    exposeHeadRoutes: false,
    // During shutdown, requests on open connections are served with `Connection: close`.
    return503OnClosing: false,
    http: {
      // Node's own response to a missing Host header has no body.
      requireHostHeader: false,
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: Math.min(requestTimeoutMs, 1_000),
    },
    requestTimeout: requestTimeoutMs,
    connectionTimeout: options.queryTimeoutMs,
    routerOptions: {
      // Query strings are parsed strictly, and only after a route is found.
      querystringParser: () => ({}),
      // Longer than any request line, so that the parameter's schema refuses the value.
      maxParamLength: 64 * 1024,
    },
    clientErrorHandler: handleClientError,
    // A URL that cannot be decoded has no route, so Fastify runs no hooks.
    frameworkErrors: async (_error, request, reply) => {
      prepareReply(corsOrigins, request, reply);
      sendError(failures, await undecodableUrl(authorize, request, reply), request, reply);
      reportResponse(failures.observer, request, reply);
    },
  };
}

function addHooks(
  app: FastifyInstance,
  corsOrigins: readonly string[],
  observer: HttpObserver | undefined,
): void {
  app.decorateRequest('credential', null as never);
  app.addHook('onRequest', (request, reply, done) => {
    // A preflight request carries no key.
    const isPreflight = prepareReply(corsOrigins, request, reply);
    if (isPreflight) reply.code(204).send();
    else done(hostError(request));
  });
  app.addHook('onResponse', (request, reply, done) => {
    reportResponse(observer, request, reply);
    done();
  });
}

/** Sets the headers of every response. Returns whether the request is a preflight request. */
function prepareReply(
  corsOrigins: readonly string[],
  request: FastifyRequest,
  reply: FastifyReply,
): boolean {
  reply.headers(securityHeaders).header('Request-Id', request.id);
  if (!request.routeOptions.config?.readsBody) closeAfterBody(request, reply);
  return setCorsHeaders(corsOrigins, request, reply);
}

/** Under /v1, the errors of the key and its limit precede the error of the URL. */
async function undecodableUrl(
  authorize: Authorize,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  try {
    if (isUnderV1(request.raw.url ?? '')) await authorize(request, reply);
  } catch (error) {
    return error;
  }
  return new ApiError('invalid_request', 'The path is not valid percent-encoded UTF-8.');
}

/** Decodes only the first segment, because the rest of the URL may be invalid. */
function isUnderV1(url: string): boolean {
  const [, first = ''] = url.replace(/^https?:\/\/[^/]*/i, '').split(/[/?]/);
  try {
    return decodeURIComponent(first) === 'v1';
  } catch {
    return false;
  }
}

async function refuseRoute(request: FastifyRequest): Promise<never> {
  throw unknownRoute(request);
}
