import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const lookIntervalMs = 100;

/**
 * Keeps count of what a server answers. The function that is returned, called when the server
 * stops, ends connections as soon as nothing is being answered any more: Node waits for a
 * client that has sent nothing yet, or half a request, for as long as that one likes, and
 * for one that keeps its connection for the next request.
 */
export function quietConnections(server: Server): () => void {
  /** By connection: an answer whose turn never came does not say that it is closed. */
  const underWay = new Map<Socket, number>();
  const count = (socket: Socket, change: number) => {
    const before = underWay.get(socket);
    if (before !== undefined) underWay.set(socket, before + change);
  };
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (!underWay.has(socket)) {
      underWay.set(socket, 0);
      socket.once('close', () => underWay.delete(socket));
    }
    count(socket, 1);
    response.once('close', () => count(socket, -1));
  });
  const isQuiet = () => [...underWay.values()].every((answers) => answers === 0);
  return () => {
    if (!server.listening) return;
    const looking = setInterval(() => {
      if (!server.listening && isQuiet()) server.closeAllConnections();
    }, lookIntervalMs).unref();
    server.once('close', () => clearInterval(looking));
  };
}
