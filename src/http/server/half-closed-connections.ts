import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { responseInFlight } from './responses-in-flight.ts';

/** The time between the first probe and the second one. It doubles from each probe to the next. */
const probeAfterMs = 500;

/**
 * Serves a client that ends its side of the connection after the request. A client that has closed the
 * connection looks the same until it receives something: then its system resets the connection, and the next
 * write fails. So 100 Continue, which clients ignore, is sent until the response begins.
 */
export function serveHalfClosedConnections(server: Server): void {
  // A property of Node's server that its types lack. By default, Node would end the connection.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on('connection', (socket: Socket) => {
    socket.once('end', () => probe(socket, probeAfterMs));
  });
}

function probe(socket: Socket, afterMs: number): void {
  const response = responseInFlight(socket);
  if (response === undefined || socket.destroyed) return;
  if (!response.headersSent) {
    if (response.req.httpVersion !== '1.1') {
      // HTTP/1.0 has no 100 Continue. Proxies that use it close the connection when their client does.
      socket.destroy();
      return;
    }
    response.writeContinue();
  }
  setTimeout(() => probe(socket, 2 * afterMs), afterMs).unref();
}
