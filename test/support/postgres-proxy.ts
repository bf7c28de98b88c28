// biome-ignore lint/style/noRestrictedImports: the type of a socket alone.
import type { Socket } from 'node:net';
import { createTcpProxy, type TcpProxy } from './tcp-proxy.ts';

type Breaks = {
  /** The number of server messages to forward. The message after them breaks its connection. */
  messagesLeft: number;
  /** Whether an ErrorResponse precedes the break, as when a server shuts down. */
  sendsError: boolean;
};

/** A proxy of Postgres that can also break connections. */
export type PostgresProxy = TcpProxy & Breaks;

export async function createPostgresProxy(databaseUrl: string): Promise<PostgresProxy> {
  const breaks: Breaks = { messagesLeft: Number.POSITIVE_INFINITY, sendsError: false };
  const proxy: PostgresProxy = Object.assign(
    await createTcpProxy(databaseUrl, (client, upstream) => forward(client, upstream, proxy)),
    breaks,
  );
  return proxy;
}

/** The ErrorResponse of a server that shuts down. */
const shutdownError = Buffer.from(
  'E____SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0',
);
shutdownError.writeUInt32BE(shutdownError.length - 1, 1);

function forward(client: Socket, upstream: Socket, proxy: Breaks): void {
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
  client.pipe(upstream);
}
