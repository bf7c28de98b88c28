import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { type Check, conformanceTo, decompressed } from './openapi.ts';

/** What came back, held to the API's description. */
export type SocketAnswer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
};

export type SentRequest = {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body?: string | null;
};

/** What speaks to one server over real sockets. Every answer is checked, and one that is not as described rejects. */
export type SocketClient = {
  /** Sends a request over a socket that others use too. Rejects where no answer comes in time. */
  send(sent: SentRequest): Promise<SocketAnswer>;
  /**
   * Sends bytes (a character each) on a socket of their own and returns the answers
   * to them once the server has hung up. Where it may still wait for more it can be
   * told after a while that there is no more; it then gives up what it has not
   * answered yet.
   */
  sendBytes(bytes: string, options?: { noMoreAfterMs?: number }): Promise<SocketAnswer[]>;
  /** A socket on which a request is under way, for those who will not wait for its answer. */
  ask(bytes: string): Socket;
  close(): void;
};

const host = '127.0.0.1';
const patienceMs = 15_000;

export async function connectTo(port: number, sockets = 25): Promise<SocketClient> {
  const check = await conformanceOf(`http://${host}:${port}`);
  const agent = new Agent({ keepAlive: true, maxSockets: sockets });
  return {
    async send(sent) {
      const answer = await exchange(agent, port, sent);
      // Node's client writes every method in capitals.
      check(sent.method.toUpperCase(), sent.url, answer);
      return answer;
    },
    async sendBytes(bytes, { noMoreAfterMs } = {}) {
      const received = await exchangeBytes(port, bytes, noMoreAfterMs);
      const answers = readAnswers(received, {
        isBodiless: bytes.startsWith('HEAD '),
        // Who stops listening is not sent the rest of an export.
        mayBeBrokenOff: noMoreAfterMs !== undefined,
      });
      const asked = [...bytes.matchAll(/^ *([A-Z]+) +(\S+)(?: HTTP\/\S+)?\r$/gm)];
      answers.forEach((answer, index) => {
        const [, method = '', url = ''] = asked[index] ?? [];
        check(method, url, answer);
      });
      return answers;
    },
    ask(bytes) {
      const socket = connect(port, host);
      socket.on('error', () => {});
      socket.write(bytes, 'latin1');
      return socket;
    },
    close: () => agent.destroy(),
  };
}

/** Lets an API listen, and connects to it. */
export async function listenAndConnect(app: FastifyInstance, sockets = 25): Promise<SocketClient> {
  await app.listen({ host, port: 0 });
  return connectTo((app.server.address() as AddressInfo).port, sockets);
}

/** How many connections the server of an API has. */
export const connectionsOf = ({ server }: FastifyInstance) =>
  new Promise<number>((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );

const plainFetch = globalThis.fetch;
const conformances = new Map<string, Promise<Check>>();

/** What a server says of itself, read once. */
function conformanceOf(origin: string): Promise<Check> {
  const conformance = conformances.get(origin) ?? readConformance(origin);
  conformances.set(origin, conformance);
  return conformance;
}

async function readConformance(origin: string): Promise<Check> {
  return conformanceTo(await (await plainFetch(`${origin}/openapi.json`)).text());
}

/** As `fetch`; an answer that is not as the server itself describes it rejects. */
export const checkedFetch: typeof fetch = async (input, init) => {
  const asked = new Request(input, init);
  const response = await plainFetch(asked);
  const { origin, pathname, search } = new URL(asked.url);
  const check = await conformanceOf(origin);
  check(asked.method, pathname + search, {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: await response.clone().text(),
  });
  return response;
};

function exchange(
  agent: Agent,
  port: number,
  { method, url, headers, body }: SentRequest,
): Promise<SocketAnswer> {
  return new Promise((resolve, reject) => {
    const length = body == null ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const options = { agent, host, port, method, path: url, headers: { ...headers, ...length } };
    const sent = request(options);
    const timer = setTimeout(() => sent.destroy(new Error('no answer came')), patienceMs);
    sent.on('error', reject).on('close', () => clearTimeout(timer));
    sent.on('response', (response) => {
      const { statusCode: status = 0, headers } = response;
      const received: Buffer[] = [];
      response.on('error', reject).on('data', (part: Buffer) => received.push(part));
      response.on('end', () => {
        try {
          const body = decompressed(Buffer.concat(received), headers['content-encoding']);
          resolve({ status, headers, body });
        } catch (error) {
          reject(error);
        }
      });
    });
    sent.end(body ?? undefined);
  });
}

function exchangeBytes(port: number, bytes: string, noMoreAfterMs?: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: true });
    let received = '';
    const noMore =
      noMoreAfterMs === undefined ? undefined : setTimeout(() => socket.end(), noMoreAfterMs);
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error('the server did not hang up'));
    }, patienceMs);
    socket.setEncoding('latin1').on('data', (part: string) => {
      received += part;
    });
    socket.on('end', () => socket.end());
    // The server may hang up before it has been told everything.
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(noMore);
      clearTimeout(timer);
      resolve(received);
    });
    socket.write(bytes, 'latin1');
  });
}

/** Takes apart what a server sent, one character a byte. */
function readAnswers(
  text: string,
  {
    isBodiless,
    mayBeBrokenOff,
  }: { readonly isBodiless: boolean; readonly mayBeBrokenOff: boolean },
): SocketAnswer[] {
  const answers: SocketAnswer[] = [];
  for (let rest = text; rest !== ''; ) {
    const headEnd = rest.indexOf('\r\n\r\n');
    if (headEnd === -1) throw new Error(`cut short: ${JSON.stringify(rest)}`);
    const [statusLine = '', ...lines] = rest.slice(0, headEnd).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
    if (Number.isNaN(status)) throw new Error(`no answer: ${JSON.stringify(statusLine)}`);
    const headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const hasBody = !isBodiless && status >= 200 && status !== 304;
    rest = rest.slice(headEnd + 4);
    let body = '';
    if (hasBody && headers['transfer-encoding'] === 'chunked') {
      const chunked = readChunks(rest);
      if (chunked === null && mayBeBrokenOff) return answers;
      if (chunked === null) throw new Error(`broken off: ${JSON.stringify(statusLine)}`);
      ({ body, rest } = chunked);
    } else if (hasBody) {
      // Without a length, the body reaches to the end.
      const length = Number(headers['content-length'] ?? Number.MAX_SAFE_INTEGER);
      body = rest.slice(0, length);
      rest = rest.slice(length);
    }
    if (status >= 200) {
      const bytes = Buffer.from(body, 'latin1');
      answers.push({ status, headers, body: decompressed(bytes, headers['content-encoding']) });
    }
  }
  return answers;
}

/** A body that comes in chunks, and what follows it; null where its end is missing. */
function readChunks(text: string): { body: string; rest: string } | null {
  let body = '';
  for (let rest = text; ; ) {
    const lineEnd = rest.indexOf('\r\n');
    const length = Number.parseInt(rest.slice(0, lineEnd), 16);
    if (lineEnd === -1 || Number.isNaN(length)) return null;
    const chunk = rest.slice(lineEnd + 2, lineEnd + 2 + length);
    if (rest.slice(lineEnd + 2 + length, lineEnd + 4 + length) !== '\r\n') return null;
    rest = rest.slice(lineEnd + 4 + length);
    if (length === 0) return { body, rest };
    body += chunk;
  }
}
