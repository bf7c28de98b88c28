import { randomBytes } from 'node:crypto';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  LogController,
} from 'fastify';
import { attributes } from '../resources/attributes.ts';
import { customerPurchases } from '../resources/customer-purchases.ts';
import { customers } from '../resources/customers.ts';
import { emailCampaigns } from '../resources/email-campaigns.ts';
import { flows } from '../resources/flows.ts';
import { identity } from '../resources/identity.ts';
import { purchaseStats } from '../resources/purchase-stats.ts';
import { purchases } from '../resources/purchases.ts';
import { segmentCustomers } from '../resources/segment-customers.ts';
import { segments } from '../resources/segments.ts';
import { tags } from '../resources/tags.ts';
import { templateCampaigns } from '../resources/template-campaigns.ts';
import { authenticate, requireScope } from './authentication.ts';
import { ApiError, errorBody, errorStatuses, internalError } from './errors.ts';
import { health } from './health.ts';
import { createRateLimit } from './rate-limit.ts';
import type { Services } from './services.ts';

/** Every resource under /v1: a new one is a file of its own and a line here. */
const resources = [
  identity,
  customers,
  customerPurchases,
  segments,
  segmentCustomers,
  purchases,
  purchaseStats,
  tags,
  attributes,
  flows,
  emailCampaigns,
  templateCampaigns,
];

export type AppOptions = {
  readonly services: Services;
  readonly rateLimitPerMinute: number;
  readonly log: FastifyBaseLogger;
};

/** The HTTP API, built but not listening. */
export function createApp({ services, rateLimitPerMinute, log }: AppOptions): FastifyInstance {
  const app = Fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => `req_${randomBytes(12).toString('hex')}`,
    requestIdHeader: false,
    exposeHeadRoutes: false,
    bodyLimit: 1024,
    routerOptions: {
      // Query strings are read strictly, and only once a route is found.
      querystringParser: () => ({}),
      maxParamLength: 1024,
    },
    frameworkErrors: (error, request, reply) => {
      reply.header('Request-Id', request.id);
      send(reply as FastifyReply, new ApiError('invalid_request', error.message), request.id);
    },
  });

  app.decorateRequest('credential', null as never);
  app.addHook('onRequest', async (request, reply) => {
    reply.header('Request-Id', request.id);
  });
  app.addHook('onResponse', async (request, reply) => {
    const path = request.url.split('?', 1)[0];
    request.log.info(
      { method: request.method, path, status: reply.statusCode, ms: reply.elapsedTime },
      'answered',
    );
  });

  app.setErrorHandler((error, request, reply) => {
    const told = toldToCaller(error);
    if (told.type === 'internal_error') request.log.error({ err: error }, 'failed');
    return send(reply, told, request.id);
  });
  const unknownRoute = async (request: { method: string; url: string }) => {
    const path = request.url.split('?', 1)[0]?.slice(0, 256);
    throw new ApiError('invalid_request', `There is no ${request.method} ${path} here.`);
  };
  app.setNotFoundHandler(unknownRoute);

  app.register(health, { services });
  app.register(
    async (v1) => {
      const rateLimit = createRateLimit(rateLimitPerMinute);
      v1.addHook('onRequest', async (request, reply) => {
        reply
          .header('Cache-Control', 'private, no-cache')
          .header('Vary', 'Authorization, Accept, Accept-Encoding');
        request.credential = await authenticate(services.database, request);
        await rateLimit.count(request.credential.keyId, reply);
        requireScope(request.credential, 'read');
      });
      // Within the prefix, so that an unknown route asks for a key as well.
      v1.setNotFoundHandler(unknownRoute);
      for (const resource of resources) resource(v1, services);
    },
    { prefix: '/v1' },
  );
  return app;
}

/** What a caller may know about an error; what it may not becomes internal_error. */
function toldToCaller(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { statusCode, message } = error as { statusCode?: unknown; message?: unknown };
  // Fastify's own refusals of malformed requests.
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new ApiError('invalid_request', String(message));
  }
  return internalError();
}

function send(reply: FastifyReply, error: ApiError, requestId: string): FastifyReply {
  if (error.type === 'authentication_error') reply.header('WWW-Authenticate', 'Bearer');
  return reply
    .code(errorStatuses[error.type])
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(error, requestId)));
}
