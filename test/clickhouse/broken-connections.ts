import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: the proxy forwards to ClickHouse.
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A proxy of ClickHouse's HTTP interface that breaks connections. */
type ClickHouseProxy = {
  readonly url: string;
  /**
   * `refuse` breaks each connection. `halve` sends half of each insert of changes, and then breaks
   * both connections; `keep response` sends all of it, and breaks the connection of the client.
   */
  mode: 'forward' | 'refuse' | 'halve' | 'keep response';
  /** The number of requests that the mode broke. */
  broken: number;
  close(): Promise<void>;
};

export async function createClickHouseProxy(serverUrl: string): Promise<ClickHouseProxy> {
  const { hostname, port } = new URL(serverUrl);
  const server = createServer({ maxHeaderSize: 2 ** 20 }, async (received, response) => {
    const { mode } = proxy;
    const { method, url: path = '/', headers } = received;
    const isInsert = /INSERT INTO (purchase_change|generation)/.test(
      new URL(path, serverUrl).searchParams.get('query') ?? '',
    );
    if (mode === 'refuse') {
      proxy.broken += 1;
      received.socket.destroy();
      return;
    }
    const sent = request({ hostname, port, method, path, headers });
    sent.on('error', () => response.destroy());
    const chunks: Buffer[] = [];
    for await (const chunk of received) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    if (mode === 'halve' && isInsert) {
      proxy.broken += 1;
      sent.write(body.subarray(0, body.length / 2), () => {
        sent.destroy();
        received.socket.destroy();
      });
      return;
    }
    sent.on('response', (answer) => {
      if (mode === 'keep response' && isInsert) {
        proxy.broken += 1;
        received.socket.destroy();
        return;
      }
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    sent.end(body);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const proxy: ClickHouseProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mode: 'forward',
    broken: 0,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
