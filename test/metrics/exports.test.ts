import { once } from 'node:events';
import { describe, expect } from 'vitest';
import { childrenOf } from '../support/processes.ts';
import { addKey } from '../support/shop.ts';
import type { SocketClient } from '../support/sockets.ts';
import { measuredTest } from './measured-api.ts';

const it = measuredTest
  /** Begins an export that the client does not read. Returns after the first bytes. */
  .extend('beginExport', async ({ service, database, shop }, { onCleanup }) => {
    const { secret } = await addKey(database.pool, shop.organizationId);
    const sockets: ReturnType<SocketClient['openSocket']>[] = [];
    onCleanup(async () => {
      for (const socket of sockets) socket.destroy();
    });
    return async () => {
      const socket = service.client.openSocket(
        `GET /v1/purchases/export?format=csv HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`,
      );
      sockets.push(socket);
      await once(socket, 'readable');
      return socket;
    };
  });

describe('the metrics of the API', () => {
  it.beforeAll(async ({ database, shop, customerId, worker }) => {
    // 20 MB as CSV: more than the buffers of a socket.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number,
         created_at)
       select $1, $2, number,
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(1, 31) as part),
         timestamptz '2020-01-01Z' + number * interval '1 hour'
       from generate_series(1, 20000) as number`,
      [shop.organizationId, customerId],
    );
    await worker.syncAll();
  });

  it('show exports that run, that end, that clients abandon and that fail', {
    tags: ['slow'],
  }, async ({ service, send, beginExport }) => {
    const ended = (outcome: string) => `crm_export_duration_seconds_count{outcome="${outcome}"}`;
    const { body } = await send('/v1/purchases/export?format=csv');
    const whole = await service.until(({ value }) => value(ended('complete')) === 1);
    expect(whole.value('crm_export_bytes_total')).toBeGreaterThanOrEqual(body.length);
    expect(whole.value('crm_exports_running')).toBe(0);

    const before = whole.value(ended('disconnected')) ?? 0;
    const abandoned = await beginExport();
    await service.until(({ value }) => value('crm_exports_running') === 1);
    abandoned.destroy();
    await service.until(({ value }) => value(ended('disconnected')) === before + 1);

    const failing = await beginExport();
    const [exporter] = childrenOf(service.program.child.pid, /export-worker/);
    process.kill(Number(exporter), 'SIGKILL');
    failing.resume();
    await service.until(({ value }) => value(ended('failed')) === 1);
  });

  it('count exports and unread responses beyond the limits of a key', { tags: ['slow'] }, async ({
    service,
    database,
    shop,
  }) => {
    const limited = (limit: string) => `crm_limited_requests_total{limit="${limit}"}`;
    const { secret } = await addKey(database.pool, shop.organizationId);
    const request = (path: string) =>
      `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`;
    const exports = request('/v1/purchases/export?format=csv');
    const sockets = [service.client.openSocket(exports), service.client.openSocket(exports)];
    await service.until(limited('exports'));
    const reading = service.client.openSocket('');
    await service.until(
      limited('unread_responses'),
      async () => void reading.write(request('/v1/purchases?limit=100').repeat(10)),
    );
    for (const socket of [...sockets, reading]) socket.destroy();
  });
});
