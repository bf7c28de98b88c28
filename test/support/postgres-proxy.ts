import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: the proxy forwards to Postgres.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy of Postgres that can refuse, drop and break connections. */
export type PostgresProxy = {
  readonly url: string;
  /** The handling of new connections. `discard` accepts and reads them, and never responds. */
  mode: 'forward' | 'refuse' | 'discard';
  /** The number of connections that were refused or discarded. */
  readonly unforwarded: number;
  /** The number of server messages to forward. The message after them breaks its connection. */
  messagesLeft: number;
  /** Whether an ErrorResponse precedes the break, as when a server shuts down. */
  sendsError: boolean;
  /** Stops forwarding on all open connections without closing them. */
  freeze(): void;
  close(): Promise<void>;
};

export async function createPostgresProxy(databaseUrl: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.setNoDelay();
    return socket.on('error', () => {}).once('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    track(client);
    if (proxy.mode === 'forward') {
      forward(client, track(connect(Number(port), hostname)), proxy);
      return;
    }
    unforwarded += 1;
    if (proxy.mode === 'refuse') client.destroy();
    else client.resume();
  });
  let unforwarded = 0;
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const proxy: PostgresProxy = {
    url: url.href,
    mode: 'forward',
    get unforwarded() {
      return unforwarded;
    },
    messagesLeft: Number.POSITIVE_INFINITY,
    sendsError: false,
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

/** The ErrorResponse of a server that shuts down. */
const shutdownError = Buffer.from(
  'E____SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0',
);
shutdownError.writeUInt32BE(shutdownError.length - 1, 1);

function forward(client: Socket, upstream: Socket, proxy: PostgresProxy): void {
  let unsent = Buffer.alloc(0);
  upstream.on('data', (part) => {
    unsent = Buffer.concat([unsent, part]);
    while (unsent.length > 4) {
      // A message is a type byte, its length without this byte, and its content.
      const length = 1 + unsent.readUInt32BE(1);
      if (unsent.length < length) return;
      if (proxy.messagesLeft === 0) {
        client.end(proxy.sendsError ? shutdownError : Buffer.alloc(0));
        upstream.destroy();
        return;
      }
      proxy.messagesLeft -= 1;
      client.write(unsent.subarray(0, length));
      unsent = unsent.subarray(length);
    }
  });
  upstream.once('close', () => client.end());
  client.once('close', () => upstream.destroy());
  client.pipe(upstream);
}
