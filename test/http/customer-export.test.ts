import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { TableBatch } from '../../src/http/formats/table.ts';
import type { ResourceServices } from '../../src/http/resource-services.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { customerInDetail } from '../../src/resources/customers/customer-wire.ts';
import { recordTable } from '../../src/resources/record/record-table.ts';
import { test as it } from '../support/fixtures.ts';
import { readIds } from '../support/paging.ts';
import { addRow } from '../support/rows.ts';
import { testServices } from '../support/services.ts';
import { exactly, fileReader, readArrow, rowsOfJson } from './formats/reading.ts';
import { addFullShop, type FullShop } from './full-shop.ts';
import { expectRefusal } from './refusal.ts';

const url = '/v1/customers/export';
const idsIn = (ndjson: string): string[] =>
  ndjson
    .split('\n')
    .slice(0, -1)
    .map((line) => String(exactly(line).id));

describe('the export of customers', () => {
  let files: Awaited<ReturnType<typeof fileReader>>;
  beforeAll(async () => {
    files = await fileReader();
  });
  afterAll(() => files.close());

  let shop: FullShop;
  let other: FullShop;
  it.beforeAll(async ({ database }) => {
    shop = await addFullShop(database.pool, 'Mine', 5);
    other = await addFullShop(database.pool, 'Theirs', 2);
    await addRow(database.pool, 'customers', {
      organization_id: shop.organizationId,
      created_at: '0001-01-01T00:00:00Z',
      updated_at: '2026-01-31T02:05:09.999999Z',
      name: '=1+1,"\r\n',
      email: '',
      total_spent_in_cents: 2n ** 63n - 1n,
      attributes: { 'a"b': [null, 'c,d'], none: null },
    });
  });

  it('has what single customers show, in every format', async ({ api }) => {
    const { secret } = shop;
    const ids = await readIds(api, secret, '/v1/customers');
    expect(ids).toHaveLength(6);
    const objects: string[] = [];
    for (const id of ids) objects.push((await api.get(`/v1/customers/${id}`, secret)).body);
    const ndjson = (await api.get(`${url}?format=ndjson`, secret)).body;
    expect(ndjson.split('\n').slice(0, -1).map(exactly)).toEqual(objects.map(exactly));

    const { columns } = recordTable(customerInDetail);
    const rows = rowsOfJson(columns, objects);
    const csv = await files.readCsv((await api.get(url, secret)).rawPayload);
    expect(csv).toEqual({ names: columns.map(({ name }) => name), rows });
    expect(readArrow((await api.get(`${url}?format=arrow`, secret)).rawPayload).rows).toEqual(rows);
    const parquet = await files.readParquet(
      (await api.get(`${url}?format=parquet`, secret)).rawPayload,
    );
    const sorted = (of: typeof rows) =>
      [...of].sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
    expect(sorted(parquet.rows)).toEqual(sorted(rows));
    expect(parquet.types).toMatchObject({
      total_spent_in_cents: 'BIGINT',
      is_subscribed: 'BOOLEAN',
      first_purchase_date: 'TIMESTAMP WITH TIME ZONE',
      default_address: 'VARCHAR',
    });
    const excel = await api.get(
      `${url}?format=csv_excel&amounts=units&timezone=Asia/Tokyo`,
      secret,
    );
    expect(excel.body).toContain('\ufeffid,created_at (Asia/Tokyo),');
    expect(excel.body).toContain(`"'=1+1,""\r\n"`);
    expect(excel.body).toContain(`,'92233720368547758.07,`);
  });

  it('has the customers of the list with the same filters', async ({ api }) => {
    const { secret, ids } = shop;
    const own = (resource: 'tag' | 'segment') => `${resource}_id=${ids[resource][0]}`;
    for (const filter of [
      ...['is_subscribed=true', 'created_since=2026-01-02T00:00:00Z', 'q=mine', own('tag')],
      ...[own('segment'), `${own('tag')}&${own('segment')}&is_subscribed=false`, 'phone=90000001'],
      ...['email=mine@shop.example&created_until=2026-01-02T00:00:00Z', 'q=nothing'],
      ...[`ids=${ids.customer[0]},${ids.customer[1]},${other.ids.customer[0]}`],
      // Another organization's.
      `tag_id=${other.ids.tag[0]}`,
      `segment_id=${other.ids.segment[0]}`,
    ]) {
      const listed = await readIds(api, secret, `/v1/customers?${filter}`);
      const { body } = await api.get(`${url}?format=ndjson&${filter}`, secret);
      expect(idsIn(body), filter).toEqual(listed);
    }
    expect((await api.get(`${url}?q=nothing`, secret)).body).toMatch(/^id,created_at,[^\n]*\r\n$/);
  });

  it("shows no other organization's customers", async ({ api }) => {
    const { body } = await api.get(`${url}?format=ndjson`, other.secret);
    expect(idsIn(body)).toEqual(other.ids.customer.toReversed());
    for (const mark of shop.marks) expect(body).not.toContain(mark);
  });

  it('is a file as of an instant for the next poll, and has no pages', async ({ api }) => {
    const { secret } = shop;
    const before = await api.get('/v1/customers', secret);
    const { headers } = await api.get(`${url}?format=csv`, secret);
    expect(String(headers['x-data-as-of']) >= String(before.headers['x-data-as-of'])).toBe(true);
    const instant = String(headers['x-data-as-of']).replaceAll(/[-:]/g, '');
    expect(headers['content-disposition']).toBe(`attachment; filename="customers-${instant}.csv"`);
    // Customers are always those of Postgres.
    const future = { 'x-min-data-as-of': '2999-01-01T00:00:00Z' };
    expect((await api.get(url, secret, future)).statusCode).toBe(200);
    for (const name of ['limit', 'starting_after', 'sort']) {
      expectRefusal(await api.get(`${url}?${name}=1`, secret), 'validation_error', name);
    }
    expectRefusal(await api.get(`${url}?format=json`, secret), 'validation_error', 'format');
    expectRefusal(await api.get(url), 'authentication_error');
  });
});

describe('lists of customers', () => {
  it('have the same customers in every format', async ({ api, database }) => {
    const { secret, ids } = await addFullShop(database.pool, 'Lists', 3);
    for (const path of ['/v1/customers', `/v1/segments/${ids.segment[0]}/customers`]) {
      const json = (await api.get(`${path}?limit=2`, secret)).json();
      const get = (format: string) => api.get(`${path}?limit=2&format=${format}`, secret);
      const { body, headers } = await get('ndjson');
      expect(
        body
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line)),
      ).toEqual(json.data);
      expect(headers['x-has-more']).toBe('true');
      const cursor = String(headers['x-next-cursor']);
      expect(headers.link).toContain('format=ndjson');
      const next = await api.get(`${path}?format=csv&starting_after=${cursor}`, secret);
      expect(next.body.split('\r\n')).toHaveLength(3);
      expect(next.headers['x-has-more']).toBe('false');
      expect(readArrow((await get('arrow')).rawPayload).rows.map(([id]) => id)).toEqual(
        json.data.map(({ id }: { id: string }) => id),
      );
      const accepted = await api.get(path, secret, { accept: 'text/csv' });
      expect(accepted.headers['content-type']).toBe('text/csv; charset=utf-8; header=present');
    }
  });
});

describe('the clients of an export of customers', () => {
  const mebibyte = 2 ** 20;
  let batches = 0;
  /** Awaited before the second batch. */
  let pause: Promise<void> = Promise.resolve();

  const pauseNow = (): (() => void) => {
    const resumed = new AbortController();
    pause = once(resumed.signal, 'abort').then(() => {});
    return () => resumed.abort();
  };

  const watched = (services: ResourceServices): ResourceServices => ({
    ...services,
    writeTable: ({ table, batches: all }, output, signal) => {
      const counted = (async function* count(): AsyncGenerator<TableBatch> {
        for await (const batch of all) {
          batches += 1;
          yield batch;
          await pause;
        }
      })();
      return services.writeTable({ table, batches: counted }, output, signal);
    },
  });

  it.beforeAll(async ({ database, shop }) => {
    // 26 MB: more than the buffers of a socket.
    await database.pool.query(
      `insert into customers (organization_id, created_at, name, identification)
       select $1, timestamptz '2020-01-01Z' + number * interval '1 second', 'name ' || number,
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(1, 100) as part)
       from generate_series(1, 8000) as number`,
      [shop.organizationId],
    );
  });

  const request = (secret: string, headers = '', method = 'GET') =>
    `${method} ${url}?format=ndjson HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n${headers}\r\n`;
  const inTransaction = `select from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
      and (state like 'idle in%' or query like '%page_position%' and state = 'active')`;

  it('receive one snapshot, and the headers of GET for HEAD', async ({
    database,
    shop: { secret, organizationId },
    startServer,
  }) => {
    const services = watched(servicesOf(database.pool));
    const { client } = await startServer({ services });
    const resume = pauseNow();
    batches = 0;
    const headers = { authorization: `Bearer ${secret}` };
    const head = await client.send({ method: 'HEAD', url: `${url}?format=ndjson`, headers });
    expect(head.status).toBe(200);
    expect(head.headers['content-type']).toBe('application/x-ndjson');
    expect(head.headers).toHaveProperty('content-disposition');
    expect(batches).toBe(0);
    const reading = client.send({ method: 'GET', url: `${url}?format=ndjson`, headers });
    while (batches === 0) await sleep(5);
    const last = encodeId(
      'customer',
      await addRow(database.pool, 'customers', {
        organization_id: organizationId,
        created_at: '2019-01-01T00:00:00Z',
      }),
    );
    await database.pool.query(`update customers set name = 'changed' where name = 'name 1'`);
    resume();
    const { body } = await reading;
    expect(new Set(idsIn(body)).size).toBe(8000);
    expect(body).not.toContain(last);
    expect(body).not.toContain('changed');
    expect(body).toContain('"name":"name 1"');
    await database.pool.query(`delete from customers where created_at < '2020-01-01Z'`);
  });

  it('hold no snapshot open while they do not read, and receive everything', {
    tags: ['slow'],
  }, async ({ database, shop: { secret }, startServer }) => {
    const services = servicesOf(database.pool);
    const { client } = await startServer({ services, queryTimeoutMs: 60_000 });
    const socket = client.openSocket(request(secret, 'Connection: close\r\n'));
    await once(
      socket.once('data', () => socket.pause()),
      'data',
    );
    while ((await database.pool.query(inTransaction)).rowCount !== 0) await sleep(10);
    let bytes = 0;
    let end = '';
    for await (const part of socket) {
      bytes += part.length;
      end = (end + part.toString('latin1')).slice(-7);
    }
    expect(end).toBe('\r\n0\r\n\r\n');
    expect(bytes).toBeGreaterThan(24 * mebibyte);
  });

  it('have the slots of other exports, which a disconnect frees at once', {
    tags: ['slow'],
  }, async ({ database, shop: { secret }, startServer }) => {
    const services = watched(servicesOf(database.pool));
    const { client } = await startServer({ services, exportsPerKey: 1, queryTimeoutMs: 60_000 });
    const resume = pauseNow();
    onTestFinished(resume);
    batches = 0;
    const socket = client.openSocket(request(secret));
    socket.on('error', () => {});
    while (batches === 0) await sleep(5);
    const headers = { authorization: `Bearer ${secret}` };
    const send = (path: string) => client.send({ method: 'GET', url: path, headers });
    for (const path of [url, '/v1/purchases/export']) expect((await send(path)).status).toBe(429);
    socket.destroy();
    resume();
    while ((await database.pool.query(inTransaction)).rowCount !== 0) await sleep(10);
    const read = batches;
    expect(read).toBeLessThan(16);
    while ((await send(`${url}?created_until=2020-01-01T00:00:09Z`)).status !== 200)
      await sleep(10);
  });
});

const servicesOf = (database: Database) => testServices(database, createPostgresEngine(database));
