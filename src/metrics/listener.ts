import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { type ListenAddress, listen, urlOf } from '../process/listen-address.ts';

export type MetricsListener = {
  /** Such as http://127.0.0.1:9464/metrics. */
  readonly url: string;
  /** Closes the port and all connections at once. */
  close(): Promise<void>;
};

const timeoutMs = 10_000;
/** A monitoring system needs one or two. */
const maxConnections = 16;

/**
 * Serves a registry to a monitoring system, on a port that clients of the API do not reach. Rejects
 * with OperatorError, which names the `variable` of the address, if the port is in use. The listener
 * does not keep the process running.
 */
export async function serveMetrics(
  registry: Registry,
  address: ListenAddress,
  variable: string,
): Promise<MetricsListener> {
  const server = createServer(
    {
      headersTimeout: timeoutMs,
      requestTimeout: timeoutMs,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: 8 * 1024,
    },
    (request, response) => {
      respond(registry, request, response).catch(() => response.destroy());
    },
  );
  server.maxConnections = maxConnections;
  // Also of a client that does not read.
  server.setTimeout(timeoutMs);
  server.unref().on('connection', (socket) => socket.unref());
  await listen(server, address, [variable]);
  const { port } = server.address() as AddressInfo;
  return {
    url: `${urlOf({ host: address.host, port })}/metrics`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function respond(
  registry: Registry,
  { method, url = '' }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (url.split('?', 1)[0] !== '/metrics') {
    response.writeHead(404).end();
    return;
  }
  if (method !== 'GET' && method !== 'HEAD') {
    response.writeHead(405, { Allow: 'GET, HEAD' }).end();
    return;
  }
  const body = await registry.metrics();
  response.writeHead(200, {
    'Content-Type': registry.contentType,
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(method === 'HEAD' ? undefined : body);
}
