import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { parseExactly, writeExactly } from '../domain/exact-numbers.ts';
import type { KeyRoutes } from '../http/key-routes.ts';
import { signalOf } from '../http/request/client-disconnect.ts';
import { readJsonBodies } from '../http/request/json-body.ts';
import { ApiError, errorBody } from '../http/response/errors.ts';
import { createServerFactory, type Exchange, insertBody } from './server.ts';

const url = '/mcp';
/** A call of a tool has less than a kibibyte. */
const maxBodyBytes = 64 * 1024;

/**
 * The Model Context Protocol: streamable HTTP without sessions, with JSON responses. Serves the revision of
 * 2026-07-28, which has no handshake, and those from 2024-11-05 to 2025-11-25.
 */
export const mcp: KeyRoutes = (app, access) => {
  const createServer = createServerFactory(access);
  readJsonBodies(app, maxBodyBytes);
  app.route({
    method: 'POST',
    url,
    onRequest: async (request, reply) => {
      requireAllowedOrigin(request, access.corsOrigins);
      return isEncoded(request) ? refuseEncoding(request, reply) : undefined;
    },
    handler: async (request, reply) => {
      const message = readMessage(request);
      const exchange: Exchange = { request, reply };
      const response = await respond(webRequest(request), message, () => createServer(exchange));
      const text = insertBody(writeExactly(await response.text()), exchange);
      access.countUnread(request, reply, text);
      const contentType = response.headers.get('content-type');
      if (contentType !== null) reply.type(contentType);
      return reply.code(response.status).send(text === '' ? undefined : text);
    },
  });
  // Without sessions there is no stream to open (GET), and no session to end (DELETE).
  app.route({
    method: ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH'],
    url,
    handler: (request, reply) => refuseMethod(request, reply),
  });
};

const refuseMethod = (request: FastifyRequest, reply: FastifyReply): FastifyReply =>
  refuse(request, reply.code(405).header('Allow', 'POST'), `${url} takes POST only.`);

const isEncoded = ({ headers }: FastifyRequest): boolean =>
  !/^(identity)?$/i.test(headers['content-encoding']?.trim() ?? '');

const refuseEncoding = (request: FastifyRequest, reply: FastifyReply): FastifyReply =>
  refuse(
    request,
    reply.code(415).header('Accept-Encoding', 'identity'),
    'The body must have no Content-Encoding.',
  );

/** With a status that the errors of /v1 do not have. */
function refuse(request: FastifyRequest, reply: FastifyReply, message: string): FastifyReply {
  const error = new ApiError('invalid_request', message);
  return reply
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(error, request.id)));
}

/** The protocol requires it: a page of another site must not reach the tools through its reader's browser. */
function requireAllowedOrigin(
  { headers: { origin }, host }: FastifyRequest,
  allowed: readonly string[],
): void {
  if (origin === undefined || allowed.includes(origin)) return;
  const own = /^https?:\/\/(.+)$/i.exec(origin)?.[1];
  if (own?.toLowerCase() === host.toLowerCase()) return;
  throw new ApiError(
    'permission_denied',
    'Pages of this Origin may not use the tools: it is not in CORS_ORIGINS.',
  );
}

/** A message as far as it is read before the SDK does. */
type Message = { readonly params?: { readonly arguments?: unknown } | null };

function readMessage({ body }: FastifyRequest): Message {
  if (typeof body !== 'string') {
    throw new ApiError('invalid_request', `POST ${url} takes application/json.`);
  }
  let message: unknown;
  try {
    message = parseExactly(body);
  } catch {
    throw new ApiError('invalid_request', 'The body is not valid JSON.');
  }
  // Each call counts as one request.
  if (Array.isArray(message) || typeof message !== 'object' || message === null) {
    throw new ApiError('invalid_request', 'The body must be one JSON-RPC message, not a batch.');
  }
  return withoutNulls(message);
}

/** Some clients send null for `params` and `arguments` that they leave out, which the SDK refuses. */
function withoutNulls(message: Message): Message {
  const { params, ...others } = message;
  if (params === null) return others;
  if (params?.arguments !== null) return message;
  const { arguments: _none, ...rest } = params;
  return { ...others, params: rest };
}

/** The request as the SDK reads it. The key stays here. */
function webRequest(request: FastifyRequest): Request {
  const { authorization: _key, ...headers } = request.headers;
  const texts = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return new Request(`http://localhost${url}`, {
    method: 'POST',
    headers: {
      ...Object.fromEntries(texts),
      // Responses are JSON, whatever the client accepts.
      accept: 'application/json, text/event-stream',
    },
    signal: signalOf(request),
  });
}

async function respond(
  request: Request,
  message: object,
  createServer: () => ReturnType<ReturnType<typeof createServerFactory>>,
): Promise<Response> {
  if (!(await isLegacyRequest(request, message))) {
    // Subscriptions would keep streams open.
    const handler = createMcpHandler(createServer, { legacy: 'reject', maxSubscriptions: 0 });
    return handler.fetch(request, { parsedBody: message });
  }
  const server = createServer();
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  try {
    return await transport.handleRequest(request, { parsedBody: message });
  } finally {
    await server.close();
  }
}
