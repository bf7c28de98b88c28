import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError, errorBody, errorStatuses } from './errors.ts';
import { newRequestId } from './request-id.ts';

const malformed = new ApiError('invalid_request', 'The request is not valid HTTP.');

/** Answers what Node cannot parse, and never reaches a route, as section 7 asks. */
export function refuseMalformed(socket: Duplex): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const requestId = newRequestId();
  const body = JSON.stringify(errorBody(malformed, requestId));
  socket.end(
    `HTTP/1.1 ${errorStatuses[malformed.type]} Bad Request\r\n` +
      `Request-Id: ${requestId}\r\n` +
      'Content-Type: application/json; charset=utf-8\r\n' +
      `Content-Length: ${Buffer.byteLength(body)}\r\n` +
      'Connection: close\r\n\r\n' +
      body,
  );
}

/** What Node would otherwise answer by itself, without a body. */
export function refuseUnsupported(server: Server): void {
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => refuseMalformed(socket));
  server.on('checkExpectation', (request: IncomingMessage) => refuseMalformed(request.socket));
}
