import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Answers that are still being written, by connection: requests may follow each other on one. */
const inFlightBySocket = new WeakMap<Duplex, Set<ServerResponse>>();

/** The one that is written on a connection now, where there is one. */
export function responseInFlight(connection: Duplex): ServerResponse | undefined {
  const [first] = inFlightBySocket.get(connection) ?? [];
  return first;
}

/** Keeps account of what a server answers, and gives what says whether that is nothing now. */
export function watchResponses(server: Server): () => boolean {
  const connections = new Set<Duplex>();
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (!connections.has(socket)) {
      connections.add(socket);
      // An answer whose turn never came does not say that it is closed.
      socket.once('close', () => connections.delete(socket));
    }
    const answers = inFlightBySocket.get(socket) ?? new Set();
    inFlightBySocket.set(socket, answers.add(response));
    // Before whoever waits for it: listeners are called in the order they came.
    response.once('close', () => answers.delete(response));
  });
  return () => [...connections].every((connection) => responseInFlight(connection) === undefined);
}
