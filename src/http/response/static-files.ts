import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { staticBody } from './compression.ts';
import { conditional, entityTag } from './etag.ts';

const types = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
} as const;

/** A file that never changes while the process runs, and the headers with which it is sent. */
export type StaticFile = {
  readonly type: keyof typeof types;
  readonly content: string | Buffer;
  readonly contentSecurityPolicy: string;
};

/** The handler of a file. Browsers revalidate it, so a new version shows at once. */
export function staticFile({ type, content, contentSecurityPolicy }: StaticFile) {
  const body = staticBody(content);
  const tag = entityTag(body);
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    reply.type(types[type]).headers({
      'Content-Security-Policy': contentSecurityPolicy,
      'Cache-Control': 'no-cache',
      ETag: tag,
    });
    return reply.send(conditional(request, reply, body));
  };
}

/** Serves files by URL, without a key. */
export function serveFiles(
  app: FastifyInstance,
  files: Readonly<Record<string, StaticFile>>,
): void {
  for (const [url, file] of Object.entries(files)) {
    app.route({ method: ['GET', 'HEAD'], url, handler: staticFile(file) });
  }
}
