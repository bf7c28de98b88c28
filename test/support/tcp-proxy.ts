import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: the proxy forwards to databases.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy that can refuse and drop connections. */
export type TcpProxy = {
  readonly url: string;
  /** The handling of new connections. `discard` accepts and reads them, and never responds. */
  mode: 'forward' | 'refuse' | 'discard';
  /** The number of connections that were refused or discarded. */
  readonly unforwarded: number;
  /** Resolves with the bytes of the next connection that is discarded, and with its end. */
  discarded(): Promise<{ readonly request: string; readonly closed: Promise<unknown> }>;
  /** Stops forwarding on all open connections without closing them. */
  freeze(): void;
  close(): Promise<void>;
};

export async function createTcpProxy(
  serverUrl: string,
  forward: (client: Socket, upstream: Socket) => void = forwardAll,
): Promise<TcpProxy> {
  const { hostname, port } = new URL(serverUrl);
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.setNoDelay();
    return socket.on('error', () => {}).once('close', () => sockets.delete(socket));
  };
  let unforwarded = 0;
  let onDiscard = (_client: Socket) => {};
  const server = createServer((client) => {
    track(client);
    if (proxy.mode === 'forward') {
      const upstream = track(connect(Number(port), hostname));
      forward(client, upstream);
      client.once('close', () => upstream.destroy());
      return;
    }
    unforwarded += 1;
    if (proxy.mode === 'refuse') {
      client.destroy();
      return;
    }
    onDiscard(client);
    client.resume();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(serverUrl);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const proxy: TcpProxy = {
    url: url.href,
    mode: 'forward',
    get unforwarded() {
      return unforwarded;
    },
    async discarded() {
      const client = await new Promise<Socket>((resolve) => {
        onDiscard = resolve;
      });
      const [head] = await once(client, 'data');
      return { request: String(head), closed: once(client, 'close') };
    },
    freeze: () => {
      for (const socket of sockets) {
        socket.unpipe();
        socket.removeAllListeners();
        track(socket).pause();
      }
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}

function forwardAll(client: Socket, upstream: Socket): void {
  client.pipe(upstream).pipe(client);
  upstream.once('close', () => client.destroy());
}
