import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { ExportWriter } from '../../src/http/resource-services.ts';
import { test } from '../support/fixtures.ts';
import { testServices } from '../support/services.ts';
import { addPurchases } from '../support/shop.ts';
import { listenAndConnect } from '../support/sockets.ts';
import { recordedLog } from './recorded-log.ts';
import { expectRefusal } from './refusal.ts';

const keyWatchIntervalMs = 20;

/** Writes all purchases, and does not end the file before its signal is aborted. */
const endless = (write: ExportWriter): ExportWriter =>
  async function* (source, filters, format, signal) {
    yield* write(source, filters, format, signal);
    await sleep(2 ** 30, undefined, { signal });
  };

const endings = [
  ['is revoked', 'update api_keys set revoked_at = now() where organization_id = $1'],
  ['expires', 'update api_keys set expires_at = now() where organization_id = $1'],
  ['is deleted', 'delete from api_keys where organization_id = $1'],
] as const;

describe('a response whose key becomes invalid', () => {
  test.for(endings)(
    'ends, as an incomplete export, when the key %s',
    async ([_, end], { database, newShop, newCustomerId, startApi }) => {
      await addPurchases(database.pool, newShop.organizationId, newCustomerId, 1);
      const services = testServices(database.pool, createPostgresEngine(database.pool));
      const writeExport = endless(services.writeExport);
      const { log, lines } = recordedLog();
      const api = await startApi({
        services: { ...services, writeExport },
        ...{ keyWatchIntervalMs, log },
      });
      const client = await listenAndConnect(api.app);
      const socket = client.openSocket(
        `GET /v1/purchases/export?format=ndjson HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${newShop.secret}\r\n\r\n`,
      );
      let received = '';
      socket.setEncoding('latin1').on('data', (part: string) => {
        received += part;
      });
      while (!received.endsWith('}\n\r\n')) await sleep(5);
      const closed = once(socket, 'close');
      await database.pool.query(end, [newShop.organizationId]);
      await closed;
      expect(received).not.toMatch(/\r\n0\r\n/);
      const sentence = 'export aborted: its key is not valid any more';
      while (!lines.some((line) => line.includes(sentence))) await sleep(5);
      expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
      client.close();
    },
  );

  test('is refused if it waits for changes', async ({ database, newShop, worker, startApi }) => {
    await worker.once([newShop.organizationId]);
    const { get } = await startApi({ keyWatchIntervalMs });
    const cursor = (await get('/v1/purchases/changes', newShop.secret)).json().next_cursor;
    const waiting = get(`/v1/purchases/changes?cursor=${cursor}&wait=30`, newShop.secret);
    const used = `select from pg_stat_activity where query like '%from api_keys where id = any%'
      and datname = current_database() and pid <> pg_backend_pid()`;
    // The key check of the request has passed.
    while ((await database.pool.query(used)).rowCount === 0) await sleep(5);
    await database.pool.query('update api_keys set revoked_at = now() where organization_id = $1', [
      newShop.organizationId,
    ]);
    expectRefusal(await waiting, 'authentication_error');
  });
});
