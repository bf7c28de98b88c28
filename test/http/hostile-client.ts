import { type Agent, type IncomingHttpHeaders, request } from 'node:http';
import { connect } from 'node:net';
import type { ClientRequest } from './hostile-requests.ts';

/** What came back; `body` is one character a byte. */
export type Answer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
};

const patienceMs = 15_000;

/** Sends a request over a socket that others use too. Rejects where no answer comes in time. */
export function sendRequest(
  agent: Agent,
  port: number,
  { method, url, headers, body }: ClientRequest,
  authorization: string | undefined,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({
      agent,
      host: '127.0.0.1',
      port,
      method,
      path: url,
      headers: {
        ...(authorization === undefined ? {} : { authorization }),
        ...headers,
        ...(body === null ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
      },
    });
    const timer = setTimeout(() => sent.destroy(new Error('no answer came')), patienceMs);
    sent.on('error', reject).on('close', () => clearTimeout(timer));
    sent.on('response', (response) => {
      let received = '';
      response.setEncoding('latin1').on('data', (part: string) => {
        received += part;
      });
      response.on('error', reject).on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: received,
        }),
      );
    });
    sent.end(body ?? undefined);
  });
}

/**
 * Sends bytes on a socket of their own and returns the answers to them. A server
 * that still waits for more is told after a while that there is no more; it must
 * then hang up.
 */
export function sendBytes(port: number, bytes: string): Promise<Answer[]> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let received = '';
    const noMore = setTimeout(() => socket.end(), 40);
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
      try {
        resolve(readAnswers(received, bytes.startsWith('HEAD ')));
      } catch (error) {
        reject(error);
      }
    });
    socket.write(bytes, 'latin1');
  });
}

function readAnswers(text: string, isBodiless: boolean): Answer[] {
  const answers: Answer[] = [];
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
    // Without a length, the body reaches to the end.
    const length = hasBody ? Number(headers['content-length'] ?? Number.MAX_SAFE_INTEGER) : 0;
    const body = rest.slice(headEnd + 4, headEnd + 4 + length);
    rest = rest.slice(headEnd + 4 + length);
    if (status >= 200) answers.push({ status, headers, body });
  }
  return answers;
}
