import { extname } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { staticBody } from './compression.ts';
import { conditional, entityTag } from './etag.ts';

/** By the extension of the URL. */
const contentTypes: Readonly<Record<string, string>> = {
  '': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
};

/**
 * The handler of a file that never changes while the process runs. Browsers revalidate it, so a new
 * version shows at once.
 */
export function staticFile(url: string, content: string | Buffer, contentSecurityPolicy: string) {
  const contentType = contentTypes[extname(url)] as string;
  const body = staticBody(content);
  const tag = entityTag(body);
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    reply.type(contentType).headers({
      'Content-Security-Policy': contentSecurityPolicy,
      'Cache-Control': 'no-cache',
    });
    return reply.send(conditional(request, reply, tag, body));
  };
}

/** Serves files by URL, without a key. */
export function serveFiles(
  app: FastifyInstance,
  contentSecurityPolicy: string,
  files: Readonly<Record<string, string | Buffer>>,
): void {
  for (const [url, content] of Object.entries(files)) {
    const handler = staticFile(url, content, contentSecurityPolicy);
    app.route({ method: ['GET', 'HEAD'], url, handler });
  }
}
