import type { Server } from 'node:http';

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
