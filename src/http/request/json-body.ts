import type { FastifyInstance } from 'fastify';
import { watchResponse } from './client-disconnect.ts';

/**
 * Reads JSON bodies of the routes that are registered later, as text: `request.body` is a string, or null for
 * another media type. A longer body is refused, and the connection closes.
 */
export function readJsonBodies(app: FastifyInstance, maxBytes: number): void {
  const options = { parseAs: 'string', bodyLimit: maxBytes } as const;
  app.addContentTypeParser('application/json', options, (_request, body, done) => done(null, body));
  app.addHook('preHandler', (request, reply, done) => {
    if (typeof request.body === 'string') {
      // The whole body was read, so the connection may serve the next request.
      reply.removeHeader('Connection');
      watchResponse(request, reply);
    }
    done();
  });
}
