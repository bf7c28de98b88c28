import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { type Check, conformanceTo, decompressed } from './openapi.ts';

/** A response that conforms to the OpenAPI document. */
export type SocketResponse = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
};

export type ClientRequest = {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body?: string | null;
};

/** A client of one server. `send` and `sendBytes` reject if a response differs from the OpenAPI document. */
export type SocketClient = {
  /** Sends a request on a shared keep-alive connection. Rejects without a response in time. */
  send(request: ClientRequest): Promise<SocketResponse>;
  /**
   * Sends bytes (one character a byte) on a new connection, and returns the responses after the
   * server has closed it. `endAfterMs` ends the client's side after this time, because the server
   * may wait for more bytes.
   */
  sendBytes(bytes: string, options?: { endAfterMs?: number }): Promise<SocketResponse[]>;
  /** Sends bytes on a new connection, and returns its socket. The response is not checked. */
  openSocket(bytes: string): Socket;
  close(): void;
};

const host = '127.0.0.1';
/** Less than the time limit of a test, and more than a busy machine needs. */
const responseTimeoutMs = 45_000;

export async function connectTo(port: number, sockets = 25): Promise<SocketClient> {
  const check = await conformanceOf(`http://${host}:${port}`);
  const agent = new Agent({ keepAlive: true, maxSockets: sockets });
  return {
    async send(request) {
      const response = await exchange(agent, port, request);
      // Node's client sends methods in upper case.
      check(request.method.toUpperCase(), request.url, response);
      return response;
    },
    async sendBytes(bytes, { endAfterMs } = {}) {
      const received = await exchangeBytes(port, bytes, endAfterMs);
      const responses = readResponses(received, {
        isBodiless: bytes.startsWith('HEAD '),
        // After the client's end, the server does not send the rest of an export.
        mayBeIncomplete: endAfterMs !== undefined,
      });
      const requests = [...bytes.matchAll(/^ *([A-Z]+) +(\S+)(?: HTTP\/\S+)?\r$/gm)];
      responses.forEach((response, index) => {
        const [, method = '', url = ''] = requests[index] ?? [];
        check(method, url, response);
      });
      return responses;
    },
    openSocket(bytes) {
      const socket = connect(port, host);
      socket.on('error', () => {});
      socket.write(bytes, 'latin1');
      return socket;
    },
    close: () => agent.destroy(),
  };
}

/** Starts the server of an API, and creates its client. */
export async function listenAndConnect(app: FastifyInstance, sockets = 25): Promise<SocketClient> {
  await app.listen({ host, port: 0 });
  return connectTo((app.server.address() as AddressInfo).port, sockets);
}

/** The number of open connections of the server of an API. */
export const connectionsOf = ({ server }: FastifyInstance) =>
  new Promise<number>((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );

const plainFetch = globalThis.fetch;
const conformances = new Map<string, Promise<Check>>();

/** The check against the OpenAPI document of a server, which is read once. */
function conformanceOf(origin: string): Promise<Check> {
  const conformance = conformances.get(origin) ?? readConformance(origin);
  conformances.set(origin, conformance);
  return conformance;
}

async function readConformance(origin: string): Promise<Check> {
  return conformanceTo(await (await plainFetch(`${origin}/openapi.json`)).text());
}

/** `fetch` that rejects if the response differs from the OpenAPI document of the server. */
export const checkedFetch: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const response = await plainFetch(request);
  const { origin, pathname, search } = new URL(request.url);
  const check = await conformanceOf(origin);
  check(request.method, pathname + search, {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: await response.clone().text(),
  });
  return response;
};

function exchange(
  agent: Agent,
  port: number,
  { method, url, headers, body }: ClientRequest,
): Promise<SocketResponse> {
  return new Promise((resolve, reject) => {
    const length = body == null ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const options = { agent, host, port, method, path: url, headers: { ...headers, ...length } };
    const sent = request(options);
    const timer = setTimeout(
      () => sent.destroy(new Error('there was no response in time')),
      responseTimeoutMs,
    );
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

function exchangeBytes(port: number, bytes: string, endAfterMs?: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: true });
    let received = '';
    const endTimer =
      endAfterMs === undefined ? undefined : setTimeout(() => socket.end(), endAfterMs);
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error('the server did not close the connection'));
    }, responseTimeoutMs);
    socket.setEncoding('latin1').on('data', (part: string) => {
      received += part;
    });
    socket.on('end', () => socket.end());
    // The server may close the connection before it has read everything.
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(endTimer);
      clearTimeout(timer);
      resolve(received);
    });
    socket.write(bytes, 'latin1');
  });
}

/** Parses responses of HTTP/1.1, one character a byte. Throws if the last one is incomplete. */
export function readResponses(
  text: string,
  { isBodiless = false, mayBeIncomplete = false } = {},
): SocketResponse[] {
  const responses: SocketResponse[] = [];
  for (let rest = text; rest !== ''; ) {
    const headEnd = rest.indexOf('\r\n\r\n');
    if (headEnd === -1) throw new Error(`incomplete headers: ${JSON.stringify(rest)}`);
    const [statusLine = '', ...lines] = rest.slice(0, headEnd).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
    if (Number.isNaN(status)) throw new Error(`not a status line: ${JSON.stringify(statusLine)}`);
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
      if (chunked === null && mayBeIncomplete) return responses;
      if (chunked === null) throw new Error(`incomplete body: ${JSON.stringify(statusLine)}`);
      ({ body, rest } = chunked);
    } else if (hasBody) {
      // Without Content-Length, the body ends with the connection.
      const length = Number(headers['content-length'] ?? Number.MAX_SAFE_INTEGER);
      body = rest.slice(0, length);
      rest = rest.slice(length);
    }
    if (status >= 200) {
      const bytes = Buffer.from(body, 'latin1');
      responses.push({ status, headers, body: decompressed(bytes, headers['content-encoding']) });
    }
  }
  return responses;
}

/** The decoded chunked body, and the text after it. Null if the last chunk is missing. */
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
