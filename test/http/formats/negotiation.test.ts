import { describe, expect } from 'vitest';
import { encodeId } from '../../../src/domain/public-id.ts';
import { quotings } from '../../../src/http/formats/quoting.ts';
import type { TestApi } from '../../support/api.ts';
import { test as it } from '../../support/fixtures.ts';
import { addCustomer, addPurchase } from '../../support/shop.ts';
import { expectRefusal } from '../refusal.ts';

const mediaTypes = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
  csv_excel: 'text/csv; charset=utf-8; header=present',
  ndjson: 'application/x-ndjson',
  arrow: 'application/vnd.apache.arrow.stream',
} as const;

it.beforeAll(async ({ database, shop, customerId, worker }) => {
  for (const order_number of ['=1+1', '-5', 'plain', 'á,b']) {
    const values = { customer_id: customerId, order_number };
    await addPurchase(database.pool, shop.organizationId, values);
  }
  await worker.syncAll();
});

describe('format negotiation', () => {
  let api: TestApi;
  let secret: string;
  let urls: string[];

  it.beforeAll(async ({ api: ownApi, shop, customerId }) => {
    api = ownApi;
    ({ secret } = shop);
    const customer = encodeId('customer', customerId);
    urls = [
      '/v1/purchases?limit=3',
      `/v1/customers/${customer}/purchases?limit=3`,
      '/v1/purchases/stats?group_by=day',
      '/v1/purchases/timeseries?interval=hour',
      '/v1/purchases/report?group_by=day',
      '/v1/purchases/cohorts?interval=week',
    ];
  });

  const get = (url: string, headers: Record<string, string> = {}) => api.get(url, secret, headers);

  it.each<[string | undefined, keyof typeof mediaTypes]>([
    [undefined, 'json'],
    ['', 'json'],
    ['*/*', 'json'],
    ['application/*', 'json'],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'json'],
    ['text/csv', 'csv'],
    ['TEXT/CSV', 'csv'],
    ['text/*', 'csv'],
    ['text/csv; charset=utf-8; header=present', 'csv'],
    ['application/json; charset="utf-8, x"; q=0.1, text/csv;charset=utf-8', 'csv'],
    ['text/csv;q=0.1;charset=utf-8, application/json;charset=utf-8', 'json'],
    ['text/csv, */*;q=0.1', 'csv'],
    ['application/json;q=0.5, text/csv;q=0.6', 'csv'],
    ['text/csv;q=0.5, application/json', 'json'],
    ['text/csv, application/json', 'csv'],
    ['*/*, application/json;q=0', 'csv'],
    ['application/x-ndjson', 'ndjson'],
    ['application/vnd.apache.arrow.stream', 'arrow'],
    ['application/json;q=0', 'json'],
    ['text/csv;q=0', 'json'],
    ['image/png', 'json'],
    ['nonsense', 'json'],
  ])('reads Accept: %s as %s', async (accept, format) => {
    for (const url of urls) {
      const response = await get(url, accept === undefined ? {} : { accept });
      expect(response.statusCode).toBe(200);
      expect(response.headers['content-type']).toBe(mediaTypes[format]);
      expect(response.headers.vary).toBe('Authorization, Accept, Accept-Encoding');
    }
  });

  it('prefers the parameter to Accept', async () => {
    for (const url of urls) {
      for (const [format, mediaType] of Object.entries(mediaTypes)) {
        const response = await get(`${url}&format=${format}`, { accept: 'text/csv' });
        expect(response.headers['content-type']).toBe(mediaType);
      }
      const response = await get(url, { accept: 'text/csv' });
      expect(response.body).toBe((await get(`${url}&format=csv`)).body);
    }
  });

  it('refuses and names an unknown format, and returns all errors as JSON', async () => {
    for (const url of urls) {
      for (const format of ['xml', '', 'CSV', 'parquet']) {
        const response = await get(`${url}&format=${format}`, { accept: 'text/csv' });
        expectRefusal(response, 'validation_error', 'format');
      }
      const response = await get(`${url}&format=csv&status=nonsense`, { accept: 'text/csv' });
      expectRefusal(response, 'validation_error', 'status');
    }
    expectRefusal(await get('/v1/me?format=csv'), 'validation_error', 'format');
  });

  it('does not change the JSON response', async () => {
    for (const url of urls) {
      const plain = await get(url);
      expect(plain.headers).not.toHaveProperty('x-has-more');
      expect((await get(`${url}&format=json`)).body).toBe(plain.body);
    }
  });

  it('sends X-Has-More', async () => {
    const more = async (url: string) => (await get(`${url}&format=csv`)).headers['x-has-more'];
    expect(await more('/v1/purchases?limit=3')).toBe('true');
    expect(await more('/v1/purchases?limit=4')).toBe('false');
    expect(await more('/v1/purchases/stats?group_by=day')).toBe('false');
  });

  it('writes CSV of RFC 4180, with unchanged text', async () => {
    const { body } = await get('/v1/purchases?limit=4&format=csv');
    const lines = body.split('\r\n');
    expect(lines).toHaveLength(6);
    expect(lines[0]).toMatch(
      /^id,customer_id,purchase_value_in_cents,created_at,updated_at,order_/,
    );
    const numbers = lines.slice(1, 5).map((line) => /,,((?:"[^"]*")|[^,]*)/.exec(line)?.[1]);
    expect(numbers).toEqual(['"á,b"', 'plain', '-5', '=1+1']);
  });

  it('escapes formulas for Excel, and begins with a byte order mark', async () => {
    const { rawPayload } = await get('/v1/purchases?limit=4&format=csv_excel');
    expect([...rawPayload.subarray(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
    const text = rawPayload.toString('utf8');
    expect(text).toContain(`,'=1+1,`);
    expect(text).toContain(`,'-5,`);
    expect(text).toContain(',plain,');
    expect(quotings.spreadsheet.text('\n=1+1')).toBe(`"'\n=1+1"`);
  });

  it('returns no rows of an empty list, and one row of totals without a grouping', async () => {
    const none = 'created_since=2200-01-01T00:00:00Z';
    const header =
      'key,purchase_count,revenue_in_cents,average_ticket_in_cents,customer_count,' +
      'currency,mixed_currencies\r\n';
    const stats = (query: string) => get(`/v1/purchases/stats?format=csv&${query}`);
    expect((await stats(`group_by=day&${none}`)).body).toBe(header);
    expect((await stats(none)).body).toBe(`${header},0,0,0,0,,false\r\n`);
    expect((await stats('limit')).statusCode).toBe(422);
    expect((await stats('status=any')).body).toBe(`${header},4,400,100,1,,false\r\n`);
    expect((await get(`/v1/purchases?format=ndjson&${none}`)).body).toBe('');
  });
});

describe('a sum that 64 bits cannot hold', () => {
  it('is exact, and refused in a format that cannot hold it', async ({
    api,
    database,
    newShop: { organizationId, secret },
  }) => {
    const customer_id = await addCustomer(database.pool, organizationId);
    for (const purchase_value_in_cents of [2n ** 63n - 1n, 2n ** 63n - 1n]) {
      await addPurchase(database.pool, organizationId, { customer_id, purchase_value_in_cents });
    }
    const stats = (format: string) => api.get(`/v1/purchases/stats?format=${format}`, secret);
    for (const format of ['json', 'csv', 'ndjson']) {
      expect((await stats(format)).body).toContain('18446744073709551614');
    }
    expectRefusal(await stats('arrow'), 'validation_error', 'format');
  });
});
