import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { purchaseTable } from '../../src/resources/purchases/purchase-table.ts';
import { hasClickHouse, type OpenEngine, openEngine } from '../engines/store.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { test as it } from '../support/fixtures.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addPurchase, addPurchases } from '../support/shop.ts';
import { exactly, fileReader, objectsIn, readArrow, rowsOfJson } from './formats/reading.ts';
import { recordedLog } from './recorded-log.ts';
import { expectRefusal } from './refusal.ts';

describe('the export of purchases', () => {
  let files: Awaited<ReturnType<typeof fileReader>>;
  beforeAll(async () => {
    files = await fileReader();
  });
  afterAll(() => files.close());
  let store: OpenEngine;
  it.beforeAll(async ({ database, directory, shop, otherShop }) => {
    const customers = [
      await addCustomer(database.pool, shop.organizationId),
      await addCustomer(database.pool, shop.organizationId),
    ];
    for (const values of fc.sample(awkwardPurchase(customers), { numRuns: 150, seed: 11 })) {
      await addPurchase(database.pool, shop.organizationId, values);
    }
    // More than one batch of either engine, created now.
    await addPurchases(database.pool, shop.organizationId, customers[0] as bigint, 4_500);
    store = await openEngine(database.pool, directory);
    const worker = await store.createWorker();
    const shops = [shop.organizationId, otherShop.organizationId];
    await worker.once(shops).finally(() => worker.close());
    return store.close;
  });

  const names = hasClickHouse ? (['clickhouse'] as const) : (['postgres', 'duckdb'] as const);
  describe.each(names)('from %s', (name) => {
    let api: TestApi;
    let secret: string;
    const { log, lines } = recordedLog();

    it.beforeAll(async ({ database, directory, shop }) => {
      const published = { services: testServices(database.pool, store.engine) };
      const options = { log, ...(name === 'postgres' ? {} : published) };
      api = await createTestApi(database.pool, join(directory, 'empty'), options);
      ({ secret } = shop);
      return api.close;
    });

    const small = 'created_until=2026-02-01T00:00:00Z';
    const get = async (query: string, headers: Record<string, string> = {}, key = secret) => {
      lines.length = 0;
      const response = await api.get(`/v1/purchases/export?${query}`, key, headers);
      expect(response.statusCode, lines.join('')).not.toBe(500);
      return response;
    };

    /** The JSON of all objects of the list, ordered by id. */
    async function listed(filters: string): Promise<string[]> {
      const objects: string[] = [];
      for (let cursor = ''; ; ) {
        const { body } = await api.get(`/v1/purchases?limit=100&${filters}${cursor}`, secret);
        objects.push(...objectsIn(body, 'data'));
        if (!body.includes('"has_more":true')) return objects.sort(byId);
        cursor = `&starting_after=${exactly(objects.at(-1) as string).id}`;
      }
    }
    const idOf = (object: string): string => String(exactly(object).id);
    const byId = (a: string, b: string): number => (idOf(a) < idOf(b) ? -1 : 1);

    it('has the rows of the list in every format', async () => {
      const objects = await listed(small);
      const rows = rowsOfJson(purchaseTable.columns, objects);
      const sorted = <Row extends readonly (string | null)[]>(of: readonly Row[]) =>
        [...of].sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
      const lines = (await get(`format=ndjson&${small}`)).body.split('\n').slice(0, -1);
      expect(lines.sort(byId).map(exactly)).toEqual(objects.map(exactly));
      const read = await files.readCsv((await get(small)).rawPayload);
      expect(read.names).toEqual(purchaseTable.columns.map((column) => column.name));
      expect(sorted(read.rows)).toEqual(rows);
      const arrow = await get(`format=arrow&${small}`);
      expect(sorted(readArrow(arrow.rawPayload).rows)).toEqual(rows);
      const parquet = await files.readParquet((await get(`format=parquet&${small}`)).rawPayload);
      expect(sorted(parquet.rows)).toEqual(rows);
      expect(Object.keys(parquet.types)).toEqual(read.names);
      expect(parquet.types).toMatchObject({
        id: 'VARCHAR',
        purchase_value_in_cents: 'BIGINT',
        created_at: 'TIMESTAMP WITH TIME ZONE',
        payment_status: 'VARCHAR',
      });
    });

    it('is complete if it has several batches', { tags: ['slow'] }, async () => {
      const { body } = await get('format=ndjson');
      const ids = body.split('\n').slice(0, -1).map(idOf);
      expect(new Set(ids).size).toBe(4_650);
      const { rows } = readArrow((await get('format=arrow')).rawPayload);
      expect(rows.map(([id]) => id).sort()).toEqual(ids.sort());
    });

    it('is a file with its instant in its name, CSV by default', { tags: ['slow'] }, async () => {
      const plain = await get(small);
      expect(plain.headers['content-type']).toBe('text/csv; charset=utf-8; header=present');
      const instant = String(plain.headers['x-data-as-of']).replaceAll(/[-:]/g, '');
      expect(plain.headers['content-disposition']).toBe(
        `attachment; filename="purchases-${instant}.csv"`,
      );
      for (const [accept, type] of [
        ['*/*', 'text/csv; charset=utf-8; header=present'],
        ['application/json', 'text/csv; charset=utf-8; header=present'],
        ['application/x-ndjson', 'application/x-ndjson'],
        ['application/vnd.apache.arrow.stream', 'application/vnd.apache.arrow.stream'],
        ['application/vnd.apache.parquet', 'application/vnd.apache.parquet'],
      ] as const) {
        expect((await get(small, { accept })).headers['content-type']).toBe(type);
      }
      expect((await get(`${small}&format=ndjson`)).headers['content-disposition']).toMatch(
        /\.ndjson"$/,
      );
    });

    it('counts as one request, requires a key, and refuses JSON', async () => {
      const countedTwice = async (): Promise<number[]> => {
        const [first, second] = [(await get(small)).headers, (await get(small)).headers];
        // A new window has reset the count.
        if (first['x-ratelimit-reset'] !== second['x-ratelimit-reset']) return countedTwice();
        return [first, second].map((headers) => Number(headers['x-ratelimit-remaining']));
      };
      const [before = 0, after] = await countedTwice();
      expect(after).toBe(before - 1);
      expectRefusal(await get('format=json'), 'validation_error', 'format');
      expectRefusal(await api.get('/v1/purchases/export'), 'authentication_error');
    });

    it("shows no other organization's purchases", async ({ otherShop }) => {
      expect((await get('format=ndjson', {}, otherShop.secret)).body).toBe('');
    });
  });
});
