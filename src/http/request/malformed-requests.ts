import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { ApiError, errorBody, errorStatuses } from '../response/errors.ts';
import { securityHeaders } from '../response/security-headers.ts';
import { responseInFlight } from '../server/responses-in-flight.ts';
import { newRequestId } from './request-id.ts';

const malformed = new ApiError('invalid_request', 'The request is not valid HTTP.');
const tooSlow = new ApiError('invalid_request', 'The request did not arrive in time.');

/** How long whoever is hung up on has to read why. */
const lingerMs = 1_000;

/**
 * Answers what Node cannot parse, and never reaches a route, as section 7 asks;
 * after the answers to the requests before it on the same socket.
 */
export function refuseMalformed(socket: Duplex, isHead: boolean, error = malformed): void {
  const earlier = responseInFlight(socket);
  if (earlier !== undefined) {
    earlier.once('close', () => refuseMalformed(socket, isHead, error));
    return;
  }
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const requestId = newRequestId();
  const body = JSON.stringify(errorBody(error, requestId));
  const security = Object.entries(securityHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
  const head =
    `HTTP/1.1 ${errorStatuses[error.type]} Bad Request\r\n` +
    `Request-Id: ${requestId}\r\n` +
    'Content-Type: application/json; charset=utf-8\r\n' +
    security.join('') +
    `Content-Length: ${Buffer.byteLength(body)}\r\n` +
    'Connection: close\r\n\r\n';
  // Node leaves the connection open for as long as the client does.
  socket.once('finish', () => setTimeout(() => socket.destroy(), lingerMs).unref());
  socket.end(isHead ? head : head + body);
}

/** RFC 9112, 3.2: Node itself keeps the first of several Host headers. */
export function hostError({ raw }: FastifyRequest): ApiError | undefined {
  const isHost = (text: string, index: number) => index % 2 === 0 && /^host$/i.test(text);
  const hosts = raw.rawHeaders.filter(isHost).length;
  if (hosts > 1) return new ApiError('invalid_request', 'The Host header is repeated.');
  if (hosts === 1 || raw.httpVersion !== '1.1') return undefined;
  return new ApiError('invalid_request', 'The Host header is missing.');
}

/** For Fastify: what its HTTP parser gives up on. */
export function handleClientError(error: Error, socket: Duplex): void {
  // Fastify's type for what Node passes here is not what Node passes.
  const { rawPacket, code } = error as { rawPacket?: unknown; code?: unknown };
  const isHead = Buffer.isBuffer(rawPacket) && rawPacket.toString('latin1', 0, 5) === 'HEAD ';
  refuseMalformed(socket, isHead, code === 'ERR_HTTP_REQUEST_TIMEOUT' ? tooSlow : malformed);
}

/** Also refuses what Node would otherwise answer by itself, without a body. */
export function refuseUnsupported(server: Server): void {
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    // From here on Node neither listens to it nor ends it: an error would end the process.
    socket.on('error', () => {});
    socket.resume();
    refuseMalformed(socket, false);
  });
  // Node would ask the client for the body with 100 Continue.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response);
  });
  server.on('checkExpectation', ({ socket, method }: IncomingMessage) =>
    refuseMalformed(socket, method === 'HEAD'),
  );
}
