import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: the proxy forwards to ClickHouse.
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A proxy of ClickHouse's HTTP interface that breaks connections. */
export type ClickHouseProxy = {
  readonly url: string;
  /**
   * `refuse` breaks each connection. The others break those of statements that match `breaking`:
   * `halve` sends half of the statement, `keep response` sends all of it, and `delay` sends it when
   * `deliver` is called.
   */
  mode: 'forward' | 'refuse' | 'halve' | 'keep response' | 'delay';
  breaking: RegExp;
  /** The number of requests that the mode broke. */
  broken: number;
  /** The number of headers with progress that each response has in addition. */
  progressHeaders: number;
  /** The beginnings of inserts. */
  readonly inserts: string[];
  /** Resolves when a statement matches, which waits until the returned function is called. */
  hold(pattern: RegExp): Promise<() => void>;
  /** Sends the delayed statements. */
  deliver(): Promise<void>;
  close(): Promise<void>;
};

export async function createClickHouseProxy(serverUrl: string): Promise<ClickHouseProxy> {
  const { hostname, port } = new URL(serverUrl);
  let held: { pattern: RegExp; onHeld: (release: () => void) => void } | null = null;
  const delayed: (() => Promise<void>)[] = [];

  const server = createServer({ maxHeaderSize: 2 ** 20 }, async (received, response) => {
    const { mode } = proxy;
    const { method, url: path = '/', headers } = received;
    if (mode === 'refuse') {
      proxy.broken += 1;
      received.socket.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of received) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const inUrl = new URL(path, serverUrl).searchParams.get('query');
    const statement = (inUrl ?? body.toString('latin1', 0, 1000)).trim();
    if (/^insert/i.test(statement)) proxy.inserts.push(statement);
    if (held?.pattern.test(statement)) {
      const { onHeld } = held;
      held = null;
      await new Promise<void>((release) => onHeld(release));
    }
    const send = () => {
      const sent = request({ hostname, port, method, path, headers });
      sent.on('error', () => response.destroy());
      return sent;
    };
    if (!['forward', 'refuse'].includes(mode) && proxy.breaking.test(statement)) {
      proxy.broken += 1;
      if (mode === 'halve') {
        const sent = send();
        sent.write(body.subarray(0, body.length / 2), () => {
          sent.destroy();
          received.socket.destroy();
        });
        return;
      }
      const deliver = async () => {
        const [answer] = await once(send().end(body), 'response');
        await text(answer);
      };
      if (mode === 'delay') delayed.push(deliver);
      else await deliver();
      received.socket.destroy();
      return;
    }
    const sent = send();
    sent.on('response', (answer) => {
      const progress = Array<string>(proxy.progressHeaders).fill(
        '{"read_rows":"1000000000000000"}',
      );
      const added = progress.length === 0 ? {} : { 'x-clickhouse-progress': progress };
      response.writeHead(answer.statusCode ?? 500, { ...answer.headers, ...added });
      answer.pipe(response);
    });
    sent.end(body);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const proxy: ClickHouseProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mode: 'forward',
    breaking: /^insert into purchase_change_v/i,
    broken: 0,
    progressHeaders: 0,
    inserts: [],
    hold: (pattern) =>
      new Promise((onHeld) => {
        held = { pattern, onHeld };
      }),
    async deliver() {
      for (const each of delayed.splice(0)) await each();
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
