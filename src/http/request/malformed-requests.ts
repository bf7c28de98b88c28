import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { ApiError, errorBody, errorStatuses } from '../response/errors.ts';
import { securityHeaders } from '../response/security-headers.ts';
import { responseInFlight } from '../server/responses-in-flight.ts';

const malformed = new ApiError('invalid_request', 'The request is not valid HTTP.');
const malformedLine = new ApiError(
  'invalid_request',
  'The request line is not valid HTTP. In the URL, percent-encode spaces (%20) and characters beyond ' +
    'ASCII (é is %C3%A9).',
);
const tooLarge = new ApiError(
  'invalid_request',
  'The URL and the headers of the request take more than 16 KiB.',
);
const tooSlow = new ApiError('invalid_request', 'The request did not arrive in time.');

/** The time in which a client can read the error before the socket closes. */
const lingerMs = 1_000;

/**
 * Sends an error of section 7 for a request that Node cannot parse, after the responses to earlier
 * requests on the same socket.
 */
function refuseMalformed(socket: Duplex, isHead: boolean, error = malformed): void {
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
  // Node keeps the connection open until the client closes it.
  socket.once('finish', () => setTimeout(() => socket.destroy(), lingerMs).unref());
  socket.end(isHead ? head : head + body);
}

/** RFC 9112, 3.2: exactly one Host header. Node keeps the first of several. */
export function hostError({ raw }: FastifyRequest): ApiError | undefined {
  const isHost = (text: string, index: number) => index % 2 === 0 && /^host$/i.test(text);
  const hosts = raw.rawHeaders.filter(isHost).length;
  if (hosts > 1) return new ApiError('invalid_request', 'The Host header is repeated.');
  if (hosts === 1 || raw.httpVersion !== '1.1') return undefined;
  return new ApiError('invalid_request', 'The Host header is missing.');
}

/** Handles errors of Node's HTTP parser. */
export function handleClientError(error: Error, socket: Duplex): void {
  // Fastify's type lacks these properties of Node's error.
  const { rawPacket, code } = error as { rawPacket?: unknown; code?: unknown };
  const isHead = Buffer.isBuffer(rawPacket) && rawPacket.toString('latin1', 0, 5) === 'HEAD ';
  const errors: Readonly<Record<string, ApiError>> = {
    ERR_HTTP_REQUEST_TIMEOUT: tooSlow,
    HPE_HEADER_OVERFLOW: tooLarge,
    HPE_INVALID_URL: malformedLine,
    // After a space in the URL, the parser expects the version.
    HPE_INVALID_CONSTANT: malformedLine,
  };
  refuseMalformed(socket, isHead, errors[String(code)] ?? malformed);
}

/** Refuses requests to which Node would respond without a body. */
export function refuseUnsupported(server: Server): void {
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    // Node has no more listeners on this socket, so an error would end the process.
    socket.on('error', () => {});
    socket.resume();
    refuseMalformed(socket, false);
  });
  // Node would request the body with 100 Continue, before the key check.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response);
  });
  server.on('checkExpectation', ({ socket, method }: IncomingMessage) =>
    refuseMalformed(socket, method === 'HEAD'),
  );
}

/** A new id of section 7. Ids that clients send are not used. */
export function newRequestId(): string {
  // Node caches random bytes for UUIDs, unlike for randomBytes.
  return `req_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
}
