import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: what it speaks to is Postgres.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Stands between a pool and Postgres, and can keep new connections from getting through. */
export type PostgresProxy = {
  readonly url: string;
  /** What becomes of connections from now on: `swallow` takes what they say and says nothing. */
  mode: 'pass' | 'refuse' | 'swallow';
  /** How many connections it did not let through. */
  readonly heldBack: number;
  close(): Promise<void>;
};

export async function createPostgresProxy(databaseUrl: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    return socket.on('error', () => {}).once('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    if (proxy.mode === 'pass') {
      const upstream = keep(connect(Number(port), hostname));
      client.pipe(upstream).pipe(client);
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
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
