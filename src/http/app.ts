import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Database } from '../postgres/pool.ts';
import { apiRights } from '../postgres/schema.ts';
import { createKeyCheck, invalidKey, requireReading } from './auth/authentication.ts';
import { createCounter, createRateLimit } from './auth/rate-limit.ts';
import { reference } from './openapi/reference.ts';
import { handleClientError, hostError, refuseUnsupported } from './request/malformed-requests.ts';
import { createFreshAnswers } from './request/minimum-freshness.ts';
import { closeAfterBody } from './request/request-body.ts';
import { newRequestId } from './request/request-id.ts';
import { compressAnswers } from './response/compression.ts';
import { admitOrigin } from './response/cors.ts';
import { answerError, logAnswer } from './response/error-handler.ts';
import { ApiError, unknownRoute } from './response/errors.ts';
import { createExportSlots, type ExportLimits } from './response/export-slots.ts';
import { createResponseCache } from './response/response-cache.ts';
import { securityHeaders } from './response/security-headers.ts';
import { createSnapshotResponses } from './response/snapshot-responses.ts';
import { limitUnreadResponses } from './response/unread-responses.ts';
import { addVary } from './response/vary.ts';
import type { ResourceRoutes } from './route.ts';
import { serve } from './serve.ts';
import { closeStalledConnections, limitConnections } from './server/connections.ts';
import { closeIdleConnectionsAtShutdown } from './server/graceful-shutdown.ts';
import { health } from './server/health.ts';
import { home } from './server/home.ts';
import { defaultMaxSilenceMs, waitForPostgres } from './server/postgres-silence.ts';
import { watchResponses } from './server/responses-in-flight.ts';
import type { Services } from './services.ts';

export type AppOptions = {
  /** Every resource under /v1. */
  readonly resources: readonly ResourceRoutes[];
  readonly services: Services;
  /** For key checks alone: slow lists cannot take its connections. That of the services by default. */
  readonly keyDatabase?: Database;
  /** How long Postgres may answer nothing while requests wait for a key check. */
  readonly maxSilenceMs?: number;
  readonly rateLimitPerMinute: number;
  /** Requests without a valid key, by address; more are refused with rate_limited. */
  readonly failedKeysPerMinute: number;
  /** `postgres` where several API processes count requests together; each for itself otherwise. */
  readonly rateLimitStore?: 'memory' | 'postgres';
  /** Proxies whose X-Forwarded-For is believed: addresses or ranges. */
  readonly trustedProxies?: readonly string[];
  /** What finished answers about purchases may take; 0 remembers none. */
  readonly responseCacheBytes?: number;
  /** Origins whose pages may read answers. */
  readonly corsOrigins?: readonly string[];
  /** How long X-Min-Data-As-Of may keep a request waiting. */
  readonly freshnessWaitMs?: number;
  readonly exports?: ExportLimits;
  /** An export in which nothing moves for so long is broken off; a client that reads nothing, too. */
  readonly stalledAfterMs?: number;
  /** Connections of one remote address; those of trusted proxies are not limited. */
  readonly connectionsPerAddress?: number;
  /** How long a client may take to send a request. */
  readonly requestTimeoutMs?: number;
  /** Response bytes that the clients of one API key may leave unread. */
  readonly unreadBytesPerKey?: number;
  readonly log: FastifyBaseLogger;
};

const defaultResponseCacheBytes = 64 * 2 ** 20;
const defaultFreshnessWaitMs = 5_000;
const defaultUnreadBytes = 64 * 2 ** 20;
const defaultConnectionsPerAddress = 512;
const defaultRequestTimeoutMs = 10_000;
const defaultStalledAfterMs = 30_000;
const defaultExports: ExportLimits = { perKey: 2, inAll: 4 };

/** The HTTP API, built but not listening. */
export function createApp(options: AppOptions): FastifyInstance {
  const { services, rateLimitPerMinute, rateLimitStore: store = 'memory', log } = options;
  const { resources, corsOrigins = [] } = options;
  const answers = createResponseCache(options.responseCacheBytes ?? defaultResponseCacheBytes);
  const { purchases } = services;
  const waitMs = options.freshnessWaitMs ?? defaultFreshnessWaitMs;
  const freshAnswers = createFreshAnswers(waitMs);
  const snapshotResponses = createSnapshotResponses(answers);
  const requestTimeoutMs = options.requestTimeoutMs ?? defaultRequestTimeoutMs;
  const stalledAfterMs = options.stalledAfterMs ?? defaultStalledAfterMs;
  const exports = {
    slots: createExportSlots(options.exports ?? defaultExports),
    stalledAfterMs,
  };
  const routes = resources.flatMap((resource) => resource(services));
  const keyDatabase = options.keyDatabase ?? services.database;
  const maxSilenceMs = options.maxSilenceMs ?? defaultMaxSilenceMs;
  const limit = { perMinute: rateLimitPerMinute, store };
  const checkKey = createKeyCheck(keyDatabase, limit, maxSilenceMs);
  const limitRequests = createRateLimit({
    perMinute: rateLimitPerMinute,
    isAnnounced: true,
    message: `This API key has used its ${rateLimitPerMinute} requests of the current minute.`,
  });
  const countFailedKey = createCounter({
    name: 'failed keys',
    perMinute: options.failedKeysPerMinute,
    sharedIn: store === 'postgres' ? keyDatabase : undefined,
  });
  const limitFailedKeys = createRateLimit({
    perMinute: options.failedKeysPerMinute,
    isAnnounced: false,
    message: 'Too many requests without a valid API key came from this address.',
  });

  /** What every request under /v1 must pass before it is told anything else. */
  const authorize = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    reply.header('Cache-Control', 'private, no-cache');
    addVary(reply, 'Authorization', 'Accept', 'Accept-Encoding');
    const checked = await checkKey(request);
    if (checked === null) {
      const counting = countFailedKey(request.ip);
      limitFailedKeys(await waitForPostgres(keyDatabase, counting, maxSilenceMs), reply);
      throw invalidKey();
    }
    request.credential = checked.credential;
    limitRequests(checked.usage, reply);
    requireReading(checked.credential);
  };

  const app = Fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: newRequestId,
    trustProxy: options.trustedProxies === undefined ? false : [...options.trustedProxies],
    requestIdHeader: false,
    exposeHeadRoutes: false,
    // What still comes is answered as ever, and told that the connection ends.
    return503OnClosing: false,
    // Node would answer a missing Host header itself, and without a body.
    http: {
      requireHostHeader: false,
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: Math.min(requestTimeoutMs, 1_000),
    },
    requestTimeout: requestTimeoutMs,
    connectionTimeout: stalledAfterMs,
    routerOptions: {
      // Query strings are read strictly, and only once a route is found.
      querystringParser: () => ({}),
      // Whatever fits into a request: the parameter's own check refuses it.
      maxParamLength: 64 * 1024,
    },
    clientErrorHandler: handleClientError,
    // URLs that cannot be decoded have no route and run no hooks.
    frameworkErrors: async (_error, request, reply) => {
      reply.headers(securityHeaders).header('Request-Id', request.id);
      admitOrigin(corsOrigins, request, reply as FastifyReply);
      closeAfterBody(request, reply as FastifyReply);
      const refusal = new ApiError(
        'invalid_request',
        'The path is not valid percent-encoded UTF-8.',
      );
      const admitted = isUnderV1(request.raw.url ?? '')
        ? authorize(request, reply as FastifyReply)
        : Promise.resolve();
      const error = await admitted.then(
        () => refusal,
        (reason: unknown) => reason,
      );
      answerError(error, request, reply as FastifyReply);
      logAnswer(request, reply as FastifyReply);
    },
  });

  app.decorateRequest('credential', null as never);
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(securityHeaders).header('Request-Id', request.id);
    closeAfterBody(request, reply);
    // Before the key: a browser asks without one.
    if (admitOrigin(corsOrigins, request, reply).isPreflight) {
      reply.code(204).send();
    } else {
      done(hostError(request));
    }
  });
  const isIdle = watchResponses(app.server);
  app.addHook('preClose', async () => {
    freshAnswers.stopWaiting();
    closeIdleConnectionsAtShutdown(app.server, isIdle);
  });
  app.addHook('onResponse', (request, reply, done) => {
    logAnswer(request, reply);
    done();
  });
  // No operation takes a body (section 4); whatever comes is not even parsed.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  app.setErrorHandler(answerError);
  app.setNotFoundHandler(refuseRoute);
  refuseUnsupported(app.server);
  closeStalledConnections(app.server);
  limitConnections(app.server, {
    perAddress: options.connectionsPerAddress ?? defaultConnectionsPerAddress,
    exempt: options.trustedProxies ?? [],
    log,
  });

  limitUnreadResponses(app, options.unreadBytesPerKey ?? defaultUnreadBytes);
  compressAnswers(app);
  app.register(home);
  app.register(health, { services, rights: apiRights(store) });
  app.register(reference, { routes });
  app.register(
    async (v1) => {
      v1.addHook('onRequest', authorize);
      // Within the prefix, so that an unknown route asks for a key as well.
      v1.setNotFoundHandler(refuseRoute);
      const from = { purchases, snapshotResponses, freshAnswers, exports };
      for (const route of routes) serve(v1, route, from);
    },
    { prefix: '/v1' },
  );
  return app;
}

/** Also of a URL that cannot be decoded as a whole, in whichever form it is written. */
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
