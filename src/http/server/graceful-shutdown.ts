import type { Server } from 'node:http';

const checkIntervalMs = 100;

/**
 * Closes all connections of a stopping server when no response is in flight. Without this, Node
 * waits for keep-alive connections and for clients that have sent nothing, or half a request.
 */
export function closeIdleConnectionsAtShutdown(server: Server, isIdle: () => boolean): void {
  if (!server.listening) return;
  const timer = setInterval(() => {
    if (!server.listening && isIdle()) server.closeAllConnections();
  }, checkIntervalMs).unref();
  server.once('close', () => clearInterval(timer));
}
