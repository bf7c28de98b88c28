import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { answerUnderWay } from './answers-under-way.ts';
import { ApiError, errorBody, errorStatuses } from './errors.ts';
import { newRequestId } from './request-id.ts';
import { securityHeaders } from './security-headers.ts';

const malformed = new ApiError('invalid_request', 'The request is not valid HTTP.');

/** How long whoever is hung up on has to read why. */
const lingerMs = 1_000;

/**
 * Answers what Node cannot parse, and never reaches a route, as section 7 asks;
 * after the answers to the requests before it on the same socket.
 */
export function refuseMalformed(socket: Duplex, isHead: boolean): void {
  const earlier = answerUnderWay(socket);
  if (earlier !== undefined) {
    earlier.once('close', () => refuseMalformed(socket, isHead));
    return;
  }
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const requestId = newRequestId();
  const body = JSON.stringify(errorBody(malformed, requestId));
  const security = Object.entries(securityHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
  const head =
    `HTTP/1.1 ${errorStatuses[malformed.type]} Bad Request\r\n` +
    `Request-Id: ${requestId}\r\n` +
    'Content-Type: application/json; charset=utf-8\r\n' +
    security.join('') +
    `Content-Length: ${Buffer.byteLength(body)}\r\n` +
    'Connection: close\r\n\r\n';
  socket.end(isHead ? head : head + body);
}

/** For Fastify: what its HTTP parser gives up on. */
export function handleClientError(error: Error, socket: Duplex): void {
  // Fastify's type for what Node passes here is not what Node passes.
  const { rawPacket } = error as { rawPacket?: unknown };
  const isHead = Buffer.isBuffer(rawPacket) && rawPacket.toString('latin1', 0, 5) === 'HEAD ';
  refuseMalformed(socket, isHead);
}

/** Also refuses what Node would otherwise answer by itself, without a body. */
export function refuseUnsupported(server: Server): void {
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    // From here on Node neither listens to it nor ends it: an error would end the process.
    socket.on('error', () => {});
    socket.resume();
    socket.once('finish', () => setTimeout(() => socket.destroy(), lingerMs).unref());
    refuseMalformed(socket, false);
  });
  server.on('checkExpectation', ({ socket, method }: IncomingMessage) =>
    refuseMalformed(socket, method === 'HEAD'),
  );
}
