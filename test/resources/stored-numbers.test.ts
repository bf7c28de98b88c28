import { describe, expect } from 'vitest';
import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { writeCoupons } from '../../src/resources/purchases/purchase-table.ts';
import { test } from '../support/fixtures.ts';
import { addRow } from '../support/rows.ts';

const numbers = ['12345678901234567890', '0.1234567890123456789', '-10.50', '0.0000001', '7'];

/** `shown` stores a row, and returns the JSON of its column from the single resource and the list. */
const it = test.extend(
  'shown',
  ({ database, shop, get }) =>
    async (
      resource: IdentifiedResource,
      table: string,
      column: string,
      json: string,
    ): Promise<string[]> => {
      const values = { organization_id: shop.organizationId, [column]: json };
      const id = encodeId(resource, await addRow(database.pool, table, values));
      const url = `/v1/${table.replaceAll('_', '-')}`;
      const { body: list } = await get(`${url}?limit=1`);
      const { body: single } = await get(`${url}/${id}`);
      const inList = list.slice(list.indexOf(`"id":"${id}"`));
      const valueIn = (text: string) =>
        new RegExp(`"${column}":(\\{[^{}]*\\}|\\[[^\\]]*\\])`).exec(text)?.[1] ?? '';
      return [single, inList].map(valueIn).filter((text) => text !== '');
    },
);

describe('numbers of stored JSON', () => {
  it.for(numbers)('have the digits of Postgres in attributes: %s', async (number, { shown }) => {
    const attributes = `{"a":${number},"bb":[1,${number}],"ccc":"${number}"}`;
    // Lists of customers have no attributes.
    expect(await shown('customer', 'customers', 'attributes', attributes)).toEqual([attributes]);
  });

  it('differ from texts that look like their internal form', async ({ shown }) => {
    const attributes = String.raw`{"a":"\\u00001","b":"\"\\u000012345678901234567890\"","c":1.0}`;
    expect(await shown('customer', 'customers', 'attributes', attributes)).toEqual([attributes]);
  });

  it('are shown beside nested values that are omitted', async ({ database, shop, get }) => {
    const attributes = '{"a":{"none":null,"huge":1e400,"b":[{"none":null,"c":1.50},null]},"d":{}}';
    const values = { organization_id: shop.organizationId, attributes };
    const id = encodeId('customer', await addRow(database.pool, 'customers', values));
    const { body } = await get(`/v1/customers/${id}`);
    expect(body).toContain('"attributes":{"a":{"b":[{"c":1.50},null]},"d":{}}');
  });

  it.for(numbers)('are texts with all digits in an address: %s', async (number, { shown }) => {
    const address = `{"number":${number}}`;
    expect(await shown('customer', 'customers', 'default_address', address)).toEqual([
      `{"number":"${number}"}`,
    ]);
  });

  it.for(['9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    'are integers with all digits in metrics and templates: %s',
    async (number, { shown }) => {
      const metrics = `{"sent":${number}}`;
      for (const resource of ['email_campaign', 'template_campaign'] as const) {
        const shownMetrics = await shown(resource, `${resource}s`, 'metrics', metrics);
        expect(shownMetrics).toEqual([metrics, metrics]);
      }
      const templates = `[{"weight":${number}}]`;
      const shownTemplates = ['template_campaign', 'template_campaigns', 'templates'] as const;
      expect(await shown(...shownTemplates, templates)).toEqual([templates, templates]);
    },
  );

  it.for([
    ['"3"', '3'],
    ['"-10.50"', '-10.50'],
    ['"12345678901234567890"', '12345678901234567890'],
    ['"03"', undefined],
    ['"R$ 3"', undefined],
    [`"1${'0'.repeat(400)}"`, undefined],
  ] as const)('are those of plain decimal text in coupons: %s', ([stored, value]) => {
    const coupons = writeCoupons(`[{"code":"A","value":${stored}}]`);
    expect(coupons).toBe(
      value === undefined ? '[{"code":"A"}]' : `[{"code":"A","value":${value}}]`,
    );
  });
});
