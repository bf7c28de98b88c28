import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: the proxy forwards to ClickHouse.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy of ClickHouse. */
export type TcpProxy = {
  readonly url: string;
  /** The handling of new connections. `discard` accepts and reads them, and never responds. */
  mode: 'forward' | 'refuse' | 'discard';
  /** Resolves with the bytes of the next connection that is discarded, and with its end. */
  discarded(): Promise<{ readonly request: string; readonly closed: Promise<unknown> }>;
  close(): Promise<void>;
};

export async function createTcpProxy(serverUrl: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(serverUrl);
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => {
    sockets.add(socket);
    return socket.on('error', () => {}).once('close', () => sockets.delete(socket));
  };
  let onDiscard = (_client: Socket) => {};
  const server = createServer((client) => {
    track(client);
    if (proxy.mode === 'refuse') client.destroy();
    if (proxy.mode === 'discard') {
      onDiscard(client);
      client.resume();
    }
    if (proxy.mode !== 'forward') return;
    const upstream = track(connect(Number(port), hostname));
    client.pipe(upstream).pipe(client);
    upstream.once('close', () => client.destroy());
    client.once('close', () => upstream.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(serverUrl);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const proxy: TcpProxy = {
    url: url.href,
    mode: 'forward',
    async discarded() {
      const client = await new Promise<Socket>((resolve) => {
        onDiscard = resolve;
      });
      const [head] = await once(client, 'data');
      return { request: String(head), closed: once(client, 'close') };
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
