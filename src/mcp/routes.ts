import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { KeyRoutes } from '../http/key-routes.ts';
import { signalOf } from '../http/request/client-disconnect.ts';
import { readJsonBodies } from '../http/request/json-body.ts';
import { ApiError, errorBody } from '../http/response/errors.ts';
import { parseExactly, writeExactly } from '../http/response/exact-numbers.ts';
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

function refuseMethod(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const error = new ApiError('invalid_request', `${url} takes POST only.`);
  return reply
    .code(405)
    .header('Allow', 'POST')
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(error, request.id)));
}

function readMessage({ body }: FastifyRequest): object {
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
  return message;
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
