import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: the pool forwards to Postgres.
import { type AddressInfo, createServer, type Socket } from 'node:net';
import pg from 'pg';

/** A connection pool that assigns each transaction any of its sessions, like PgBouncer in transaction mode. */
export async function createTransactionPool(
  databaseUrl: string,
  size: number,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const sessions = await Promise.all(
    Array.from({ length: size }, async () => {
      const session = new pg.Client({ connectionString: databaseUrl });
      session.on('error', () => {});
      await session.connect();
      return session;
    }),
  );
  const free = sessions.map((session) => {
    const { stream } = (session as unknown as { connection: { stream: Socket } }).connection;
    return stream.removeAllListeners('data').on('error', () => {});
  });
  const clients = new Set<Socket>();
  const server = createServer((client) => {
    clients.add(client);
    client.on('error', () => {}).once('close', () => clients.delete(client));
    client.once('data', () => {
      client.write(welcome);
      serveTransactions(client, free);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    async close() {
      for (const client of clients) client.destroy();
      server.close();
      for (const session of sessions) {
        (session as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
      }
      await once(server, 'close');
    },
  };
}

const int32 = (number: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(number);
  return bytes;
};
const message = (kind: string, ...parts: Buffer[]): Buffer => {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(kind), int32(body.length + 4), body]);
};
/** AuthenticationOk, the pool's BackendKeyData, ReadyForQuery. */
const welcome = Buffer.concat([
  message('R', int32(0)),
  message('K', int32(1), int32(2)),
  message('Z', Buffer.from('I')),
]);

/** Each transaction uses the session that was freed last. */
function serveTransactions(client: Socket, free: Socket[]): void {
  let session: Socket | undefined;
  const onReply = (part: Buffer) => {
    client.write(part);
    // ReadyForQuery outside a transaction ends the last part of a reply.
    if (part.subarray(-6).equals(message('Z', Buffer.from('I'))) && session !== undefined) {
      session.off('data', onReply);
      free.push(session);
      session = undefined;
    }
  };
  client.on('data', (part: Buffer) => {
    if (part.subarray(0, 1).toString() === 'X') return;
    session ??= free.pop()?.on('data', onReply);
    if (session === undefined) client.destroy();
    session?.write(part);
  });
}
