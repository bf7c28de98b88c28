import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import autocannon from 'autocannon';
import { readUsage } from '../../measure/process-usage.ts';
import type { Scope } from '../../runner/scope.ts';

export type LoadRequest = {
  /** The path with its query string. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
};

export type Load = {
  /** A running process and its URL. */
  readonly server: { readonly pid: number; readonly url: string };
  readonly clients: number;
  readonly milliseconds: number;
  /** The next request of any client. */
  readonly next: () => LoadRequest;
  /** The expected status. Any other fails the measurement: an error response is fast. */
  readonly status: number;
};

export type MeasuredLoad = {
  readonly requestsPerSecond: number;
  readonly latenciesMs: readonly number[];
  /** Processor time of the server; NaN if the system does not report it. */
  readonly serverMsPerRequest: number;
  /** Processor time of this process: near 1, the clients are the limit. */
  readonly clientCores: number;
};

const checkIntervalMs = 20;
const timeoutSeconds = 60;

/**
 * A closed loop: each client sends its next request after each response. All clients are in this
 * process, which does nothing else meanwhile. The measurement starts once each has a response: then
 * all are connected, and the server has finished earlier requests.
 */
export async function measureLoad(scope: Scope, load: Load): Promise<MeasuredLoad> {
  const { responses, settled, ended, stop } = startClients(load);
  scope.signal.addEventListener('abort', stop, { once: true });
  try {
    // Clients of a server that closes connections retry forever, without an error.
    await Promise.race([settled, ended, failAfterTimeout()]);
    const before = readState(load, responses);
    await Promise.race([sleep(load.milliseconds), ended]);
    const after = readState(load, responses);
    stop();
    await ended;
    scope.signal.throwIfAborted();
    const unexpected = responses.find(({ status }) => status !== load.status);
    if (unexpected !== undefined) throw new Error(`a response was ${unexpected.status}`);
    const counted = responses.slice(before.responses, after.responses);
    const elapsedMs = after.at - before.at;
    return {
      requestsPerSecond: (1000 * counted.length) / elapsedMs,
      latenciesMs: counted.map(({ latencyMs }) => latencyMs),
      serverMsPerRequest: (after.serverMs - before.serverMs) / counted.length,
      clientCores: (after.ownMs - before.ownMs) / elapsedMs,
    };
  } finally {
    scope.signal.removeEventListener('abort', stop);
    stop();
  }
}

async function failAfterTimeout(): Promise<never> {
  await sleep(1000 * timeoutSeconds, undefined, { ref: false });
  throw new Error(`some clients had no response within ${timeoutSeconds} s`);
}

type Response = { readonly status: number; readonly latencyMs: number };

function startClients({ server, clients, next }: Load) {
  const responses: Response[] = [];
  const connected = new Set<autocannon.Client>();
  const settled = new EventEmitter();
  const running = new AbortController();
  const ended = new Promise<void>((resolve, reject) => {
    const options: autocannon.Options = {
      url: server.url,
      connections: clients,
      // `stop` ends it earlier.
      duration: 24 * 3600,
      sampleInt: checkIntervalMs,
      timeout: timeoutSeconds,
      bailout: 1,
      requests: [{ setupRequest: (request) => ({ ...request, ...next() }) }],
    };
    const instance = autocannon(options, (error) => (error ? reject(error) : resolve()));
    running.signal.addEventListener('abort', () => instance.stop());
    instance.on('reqError', reject);
    instance.on('response', (client, status, _bytes, latencyMs) => {
      responses.push({ status, latencyMs });
      if (connected.size < clients && connected.add(client).size === clients) {
        settled.emit('settled');
      }
    });
  });
  return { responses, settled: once(settled, 'settled'), ended, stop: () => running.abort() };
}

function readState({ server }: Load, responses: readonly Response[]) {
  const { user, system } = process.cpuUsage();
  return {
    at: performance.now(),
    responses: responses.length,
    ownMs: (user + system) / 1000,
    serverMs: 1000 * (readUsage(server.pid)?.cpuSeconds ?? Number.NaN),
  };
}
