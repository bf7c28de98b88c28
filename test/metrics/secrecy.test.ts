import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/current.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import { describedOperations } from '../http/described-operations.ts';
import { addFullShop } from '../http/full-shop.ts';
import { hostileRequest, type KeyKind, keyPlaceholder } from '../http/hostile-requests.ts';
import { reveals } from '../http/recorded-log.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { scraperOf } from '../support/metrics.ts';
import { addKey } from '../support/shop.ts';
import { connectTo } from '../support/sockets.ts';

/** In every text of a shop: names, emails, addresses, orders and coupons. */
const mark = 'Quintanilha';
const phones = ['+55 11 900000001', '5511900000001', '11900000001'];
const email = `${mark}@shop.example`;

describe('logs at the level trace, and metrics', () => {
  it('contain no secret and no personal data', { tags: ['slow'], timeout: 180_000 }, async ({
    database,
    directory,
    program,
  }) => {
    const { pool } = database;
    const shop = await addFullShop(pool, mark, 4);
    const other = await addFullShop(pool, 'Otherwise', 4);
    const { secret: writerSecret } = await addKey(pool, shop.organizationId, { scopes: ['write'] });
    const secrets: Partial<Record<KeyKind, string>> = {
      own: shop.secret,
      other: other.secret,
      writer: writerSecret,
      wrong: `crm_live_${'w'.repeat(42)}`,
    };
    const verbose = { LOG_LEVEL: 'trace', DATABASE_SILENCE_MS: '30000' };
    const worker = program('sync/main.ts', ['run'], {
      ...verbose,
      SYNC_METRICS_LISTEN: '127.0.0.1:0',
      VERIFY_EVERY: '2s',
    });
    const workerMetrics = await scraperOf(worker);
    const live = 'crm_sync_organizations{state="live"}';
    await workerMetrics.until(({ value }) => value(live) === 2);
    const api = program('src/commands/api.ts', [], {
      ...verbose,
      METRICS_LISTEN: '127.0.0.1:0',
      RATE_LIMIT_PER_MINUTE: '1000000',
    });
    const apiMetrics = await scraperOf(api);
    const [, port] = await api.printed(/Listening on http:\/\/127\.0\.0\.1:(\d+)/);
    const client = await connectTo(Number(port));
    const statuses = new Set<number>();
    const send = async (url: string, secret = shop.secret, method = 'GET') => {
      const headers = {
        authorization: `Bearer ${secret}`,
        'x-min-data-as-of': '2020-01-01T00:00:00Z',
      };
      const { status } = await client.send({ method, url, headers });
      statuses.add(status);
    };

    // Each parameter of each operation, with personal data and with a secret.
    const { body } = await client.send({ method: 'GET', url: '/openapi.json', headers: {} });
    const operations = describedOperations(body);
    for (const { path, parameters } of operations) {
      const url = path.replace(
        /\{(\w+)\}/,
        (_, of: keyof typeof shop.ids) => shop.ids[of][0] ?? '',
      );
      await send(url);
      for (const value of [mark, email, ...phones, shop.secret]) {
        const written = encodeURIComponent(value);
        await Promise.all(parameters.map((name) => send(`${url}?${name}=${written}`)));
        await send(`${url}/${written}?${written}`);
        await send(path.replace(/\{\w+\}/, written));
      }
    }
    const target = { operations, own: shop.ids, other: other.ids };
    for (const request of fc.sample(hostileRequest(target), { numRuns: 600, seed: 5 })) {
      const secret = secrets[request.key];
      if (request.kind === 'raw') {
        const line = secret === undefined ? 'X: none' : `Authorization: Bearer ${secret}`;
        const bytes = request.bytes.replaceAll(keyPlaceholder, line);
        await client.sendBytes(bytes, { endAfterMs: 20 });
      } else if (/^(GET|HEAD)$/.test(request.method)) {
        await send(request.url, secret, request.method);
      }
    }

    // A purchase that cannot be copied, a damaged file, and statements that fail.
    await pool.query('alter domain instant drop constraint instant_check');
    await pool.query(`update purchases set created_at = 'infinity' where organization_id = $1`, [
      shop.organizationId,
    ]);
    await workerMetrics.until(({ value }) => value('crm_sync_organizations{state="failed"}') === 1);
    const folder = organizationDirectory(directory, other.organizationId);
    const published = readCurrent(folder, layoutVersion);
    writeFileSync(join(folder, published?.log ?? ''), `${mark} `.repeat(10_000));
    await pool.query('alter table customers rename column email to mail');
    for (const secret of [shop.secret, other.secret]) {
      await Promise.all([
        send(`/v1/customers?email=${email}`, secret),
        send(`/v1/customers?q=${mark}`, secret),
        send(`/v1/purchases/stats?utm_source=${mark}`, secret),
      ]);
    }
    await workerMetrics.until('crm_sync_failures_total{stage="poll"}', async () => {
      await pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database()
             and application_name ~ '^crm-data-service (sync|api.*)$'`,
      );
      await send(`/v1/purchases?utm_term=${mark}`);
    });
    expect([...statuses]).toEqual(expect.arrayContaining([200, 400, 401, 403, 404, 422, 500]));

    const scrapes = [await apiMetrics.scrape(), await workerMetrics.scrape()];
    client.close();
    for (const running of [api, worker]) expect(await running.end('SIGTERM')).toBe(0);
    const lines = [api.output(), worker.output(), ...scrapes.map(({ text }) => text)]
      .join('\n')
      .split('\n');
    expect(lines.length).toBeGreaterThan(1_000);
    const { password } = new URL(database.url);
    expect(password.length).toBeGreaterThan(8);
    const isLeak = (line: string) =>
      [...Object.values(secrets), password].some((secret) => reveals(line, secret)) ||
      [mark, 'Otherwise', ...phones].some((text) =>
        line.toLowerCase().includes(text.toLowerCase()),
      );
    expect(lines.filter(isLeak)).toEqual([]);
  });
});
