import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import autocannon from 'autocannon';
import { readUsage } from '../../measure/process-usage.ts';
import type { Scope } from '../../runner/scope.ts';

export type LoadRequest = {
  /** From the root, with its query string. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
};

export type Load = {
  /** A running process, and where it listens. */
  readonly server: { readonly pid: number; readonly url: string };
  readonly clients: number;
  readonly milliseconds: number;
  /** What is asked next, by whichever client is free. */
  readonly next: () => LoadRequest;
  /** Any other answer ends the measurement: a refusal is quick. */
  readonly statuses: readonly number[];
};

export type MeasuredLoad = {
  readonly requestsPerSecond: number;
  readonly latenciesMs: readonly number[];
  /** Processor time of the server; NaN where the system does not tell. */
  readonly serverMsPerRequest: number;
  /** How busy the clients kept this process: near 1 they measure themselves. */
  readonly clientCores: number;
};

const checkIntervalMs = 20;
const patienceSeconds = 60;

/**
 * A closed loop: each client asks anew as soon as it is answered. They all live in
 * this process, which does nothing else meanwhile. Counting begins once each has been
 * answered: by then all are connected, and the server is done with whoever was before.
 */
export async function measureLoad(scope: Scope, load: Load): Promise<MeasuredLoad> {
  scope.signal.throwIfAborted();
  const { answers, settled, ended, stop } = startClients(load);
  scope.signal.addEventListener('abort', stop, { once: true });
  try {
    // A server that hangs up makes the clients try again, for ever and in silence.
    await Promise.race([settled, ended, failAfter(1000 * patienceSeconds)]);
    const before = readState(load, answers);
    await Promise.race([sleep(load.milliseconds), ended]);
    const after = readState(load, answers);
    stop();
    await ended;
    scope.signal.throwIfAborted();
    const unexpected = answers.find(({ status }) => !load.statuses.includes(status));
    if (unexpected !== undefined) throw new Error(`a request was answered ${unexpected.status}`);
    const counted = answers.slice(before.answers, after.answers);
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

async function failAfter(milliseconds: number): Promise<never> {
  await sleep(milliseconds, undefined, { ref: false });
  throw new Error(`some clients had no answer within ${milliseconds / 1000} s`);
}

type Answer = { readonly status: number; readonly latencyMs: number };

function startClients({ server, clients, next }: Load) {
  const answers: Answer[] = [];
  const answered = new Set<autocannon.Client>();
  const running = new AbortController();
  let settle = () => {};
  const settled = new Promise<void>((resolve) => {
    settle = resolve;
  });
  const ended = new Promise<void>((resolve, reject) => {
    const options: autocannon.Options = {
      url: server.url,
      connections: clients,
      // They are stopped before; this is merely more than anybody measures.
      duration: 24 * 3600,
      sampleInt: checkIntervalMs,
      timeout: patienceSeconds,
      bailout: 1,
      requests: [{ setupRequest: (request) => ({ ...request, ...next() }) }],
    };
    const instance = autocannon(options, (error) => (error ? reject(error) : resolve()));
    running.signal.addEventListener('abort', () => instance.stop());
    instance.on('reqError', (error: Error) => reject(error));
    instance.on('response', (client, status, _bytes, latencyMs) => {
      answers.push({ status, latencyMs });
      if (answered.size < clients && answered.add(client).size === clients) settle();
    });
  });
  return { answers, settled, ended, stop: () => running.abort() };
}

function readState({ server }: Load, answers: readonly Answer[]) {
  const { user, system } = process.cpuUsage();
  return {
    at: performance.now(),
    answers: answers.length,
    ownMs: (user + system) / 1000,
    serverMs: 1000 * (readUsage(server.pid)?.cpuSeconds ?? Number.NaN),
  };
}
