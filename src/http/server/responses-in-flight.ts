import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Unfinished responses by connection, which has several if the client pipelines requests. */
const inFlightBySocket = new WeakMap<Duplex, Set<ServerResponse>>();

/** The response that is being written on a connection. */
export function responseInFlight(connection: Duplex): ServerResponse | undefined {
  const [first] = inFlightBySocket.get(connection) ?? [];
  return first;
}

/** Tracks a server's responses. Returns a function that returns whether none is in flight. */
export function trackResponses(server: Server): () => boolean {
  const connections = new Set<Duplex>();
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (!connections.has(socket)) {
      connections.add(socket);
      // A pipelined response that was never begun emits no `close`.
      socket.once('close', () => connections.delete(socket));
    }
    const responses = inFlightBySocket.get(socket) ?? new Set();
    inFlightBySocket.set(socket, responses.add(response));
    // Registered first, so that this listener runs before all others.
    response.once('close', () => responses.delete(response));
  });
  return () => [...connections].every((connection) => responseInFlight(connection) === undefined);
}

const checkIntervalMs = 100;

/**
 * Closes all connections of a stopping server when no response is in flight, and after
 * `timeoutMs` in any case: an export may take hours. Without this, Node waits for keep-alive
 * connections and for clients that have sent nothing, or half a request.
 */
export function closeConnectionsAtShutdown(
  server: Server,
  isIdle: () => boolean,
  timeoutMs: number,
): void {
  if (!server.listening) return;
  const deadline = performance.now() + timeoutMs;
  const timer = setInterval(() => {
    const isDue = isIdle() || performance.now() > deadline;
    if (!server.listening && isDue) server.closeAllConnections();
  }, checkIntervalMs).unref();
  server.once('close', () => clearInterval(timer));
}
