import type { Server } from 'node:http';

const lookIntervalMs = 100;

/**
 * Ends a stopping server's connections as soon as nothing is being answered any more: Node
 * waits for a client that has sent nothing yet, or half a request, for as long as that one
 * likes, and for one that keeps its connection for the next request.
 */
export function closeIdleConnectionsAtShutdown(server: Server, isIdle: () => boolean): void {
  if (!server.listening) return;
  const looking = setInterval(() => {
    if (!server.listening && isIdle()) server.closeAllConnections();
  }, lookIntervalMs).unref();
  server.once('close', () => clearInterval(looking));
}
