import type { Server, ServerResponse } from 'node:http';

const lookIntervalMs = 100;

/**
 * Keeps count of what a server answers. The function that is returned, called when the server
 * stops, ends connections as soon as nothing is being answered any more: Node waits for a
 * client that has sent nothing yet, or half a request, for as long as that one likes, and
 * for one that keeps its connection for the next request.
 */
export function quietConnections(server: Server): () => void {
  let underWay = 0;
  server.on('request', (_request, response: ServerResponse) => {
    underWay += 1;
    response.once('close', () => {
      underWay -= 1;
    });
  });
  return () => {
    if (!server.listening) return;
    const looking = setInterval(() => {
      if (!server.listening && underWay === 0) server.closeAllConnections();
    }, lookIntervalMs).unref();
    server.once('close', () => clearInterval(looking));
  };
}
