import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: what it speaks to is Postgres.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Stands between a pool and Postgres, and can keep what is said from getting through. */
export type PostgresProxy = {
  readonly url: string;
  /** What becomes of connections from now on: `swallow` takes what they say and says nothing. */
  mode: 'pass' | 'refuse' | 'swallow';
  /** How many connections it did not let through. */
  readonly heldBack: number;
  /** How many more of the server's messages get through; with the next one its connection breaks. */
  messagesLeft: number;
  /** Whether a connection that breaks is told why, as by a server that is shut down. */
  tellsWhy: boolean;
  /** Lets nothing more through of what there is: neither side is told. */
  silence(): void;
  close(): Promise<void>;
};

export async function createPostgresProxy(databaseUrl: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.setNoDelay();
    return socket.on('error', () => {}).once('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    if (proxy.mode === 'pass') {
      passOn(client, keep(connect(Number(port), hostname)), proxy);
      return;
    }
    heldBack += 1;
    if (proxy.mode === 'refuse') client.destroy();
    else client.resume();
  });
  let heldBack = 0;
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const proxy: PostgresProxy = {
    url: url.href,
    mode: 'pass',
    get heldBack() {
      return heldBack;
    },
    messagesLeft: Number.POSITIVE_INFINITY,
    tellsWhy: false,
    silence: () => {
      for (const socket of sockets) {
        socket.unpipe();
        socket.removeAllListeners();
        keep(socket).pause();
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

/** An ErrorResponse, as a server sends that is shut down. */
const goodbye = Buffer.from(
  'E____SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0',
);
goodbye.writeUInt32BE(goodbye.length - 1, 1);

function passOn(client: Socket, upstream: Socket, proxy: PostgresProxy): void {
  let unsent = Buffer.alloc(0);
  upstream.on('data', (part) => {
    unsent = Buffer.concat([unsent, part]);
    while (unsent.length > 4) {
      // A letter for its kind, and the length of what follows the letter.
      const length = 1 + unsent.readUInt32BE(1);
      if (unsent.length < length) return;
      if (proxy.messagesLeft === 0) {
        client.end(proxy.tellsWhy ? goodbye : Buffer.alloc(0));
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
