import type { FastifyInstance } from 'fastify';
import { closeAfterBody } from './api-request.ts';
import { watchResponse } from './client-disconnect.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set for routes after `readJsonBodies`. Other routes close the connection of a request with a body. */
    readsBody?: true;
  }
}

/**
 * Reads JSON bodies of the routes that are registered later, as text: `request.body` is a string, or null for
 * another media type. If a body is longer, or the request is refused before, the connection closes.
 */
export function readJsonBodies(app: FastifyInstance, maxBytes: number): void {
  const options = { parseAs: 'string', bodyLimit: maxBytes } as const;
  app.addContentTypeParser('application/json', options, (_request, body, done) => done(null, body));
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, readsBody: true };
  });
  app.addHook('preParsing', ({ headers, raw: { httpVersion } }, { raw }, payload, done) => {
    // After the key check. Other expectations are refused before.
    if (headers.expect !== undefined && httpVersion === '1.1') raw.writeContinue();
    done(null, payload);
  });
  app.addHook('preHandler', (request, reply, done) => {
    if (typeof request.body === 'string') watchResponse(request, reply);
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    if (!request.raw.readableEnded) closeAfterBody(request, reply);
    done(null, payload);
  });
}
