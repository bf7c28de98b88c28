import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { AppOptions } from '../../src/http/app.ts';
import type { ExportWriter } from '../../src/http/resource-services.ts';
import type { TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import { testServices } from '../support/services.ts';
import { addPurchases } from '../support/shop.ts';
import { listenAndConnect, type SocketClient } from '../support/sockets.ts';

/** Writes all purchases, and fails when a signal is aborted instead of ending the file. */
const incomplete = (write: ExportWriter, failure: AbortSignal): ExportWriter =>
  async function* (source, filters, format, signal) {
    yield* write(source, filters, format, signal);
    await sleep(2 ** 30, undefined, { signal: AbortSignal.any([failure, signal]) });
  };

type RunningExport = {
  readonly api: TestApi;
  readonly socket: ReturnType<SocketClient['openSocket']>;
  readonly fail: () => void;
};

describe('an HTTP/1.0 client', { tags: ['slow'] }, () => {
  it.for([
    ['fails after its first byte', {}, ({ fail }) => fail()],
    ['stalls', { queryTimeoutMs: 2_000 }, () => {}],
    ['outlasts shutdown', { shutdownTimeoutMs: 0 }, ({ api }) => api.close()],
    ['is sent to a half-closed socket', {}, ({ socket }) => socket.end()],
  ] as [string, Partial<AppOptions>, (running: RunningExport) => unknown][])(
    'receives a TCP reset if an export %s',
    async ([_, options, interrupt], { database, newShop, newCustomerId, startApi }) => {
      await addPurchases(database.pool, newShop.organizationId, newCustomerId, 1);
      const failure = new AbortController();
      const services = testServices(database.pool, createPostgresEngine(database.pool));
      const writeExport = incomplete(services.writeExport, failure.signal);
      const api = await startApi({ services: { ...services, writeExport }, ...options });
      const client = await listenAndConnect(api.app);
      const bytes = `GET /v1/purchases/export?format=ndjson HTTP/1.0\r\nAuthorization: Bearer ${newShop.secret}\r\n\r\n`;
      const socket = client.openSocket(bytes);
      let received = '';
      socket.setEncoding('latin1').on('data', (part: string) => {
        received += part;
      });
      // Node reports no reset to a client that has unread bytes.
      while (!received.endsWith('}\n')) await sleep(5);
      const closed = once(socket, 'close');
      interrupt({ api, socket, fail: () => failure.abort() });
      await expect(closed).rejects.toMatchObject({ code: 'ECONNRESET' });
      client.close();
    },
  );
});
