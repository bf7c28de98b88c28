import { describe, expect } from 'vitest';
import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { listEndpoints } from '../http/endpoints.ts';
import { test } from '../support/fixtures.ts';
import { addRow } from '../support/rows.ts';

const created_at = '2026-01-01T00:00:00Z';
const updated_at = '2026-01-02T00:00:00Z';
const created = '2026-01-01T00:00:00.000000Z';
const updated = '2026-01-02T00:00:00.000000Z';

const it = test
  /** Stores a row, and returns its fields in the list without `object`, `id` and `html_url`. */
  .extend(
    'shown',
    ({ database, shop, get }) =>
      async (resource: IdentifiedResource, values: Record<string, unknown>) => {
        const path = listEndpoints.find(({ object }) => object === resource)?.path ?? '';
        const url = `/v1${path}`;
        const id = await addRow(database.pool, path.slice(1).replace('-', '_'), {
          organization_id: shop.organizationId,
          ...values,
        });
        const publicId = encodeId(resource, id);
        const list = await get(`${url}?limit=100`);
        const inList = list.json().data.find((item: { id: string }) => item.id === publicId);
        if (resource !== 'attribute') {
          const single = await get(`${url}/${publicId}`);
          expect(single.json()).toStrictEqual(inList);
        }
        expect(inList.object).toBe(resource);
        if (resource !== 'tag' && resource !== 'attribute') {
          expect(inList.html_url).toBe(`https://app.example${path}/${publicId}`);
        }
        const { object, id: _id, html_url: _url, ...rest } = inList;
        return rest;
      },
  );

describe('the fields', () => {
  const campaign = {
    ...{ status: 'sent', scheduling_type: 'scheduled', name: 'Sale' },
    scheduled_for: '2026-02-01T09:00:00-03:00',
    sent_at: '2026-02-01T12:00:00.000001Z',
  };
  const templateCampaign = {
    ...campaign,
    recipient_type: 'segment',
    templates: [
      { id: '1', order: 0, weight: 70, name: 'a', category: 'MARKETING', language: 'pt_BR' },
      { id: '2', order: 1, weight: 30 },
    ],
    metrics: { recipients: 10, sent: 9, delivered: 8, read: 7, failed: 1 },
  };
  it.for([
    ['tag', { name: 'vip', color: '#FFF' }],
    ['attribute', { name: 'size', type: 'text', description: 'S to XL' }],
    [
      'flow',
      {
        ...{ status: 'active', name: 'Welcome', description: 'First\nsecond', run_count: 12 },
        ...{ trigger_event_type: 'customer_created', origin: 'template' },
      },
    ],
    ['email_campaign', { ...campaign, metrics: { sent: 10, delivered: 9, opened: 5, clicked: 0 } }],
    ['template_campaign', { ...templateCampaign, channel: 'whatsapp', is_official: true }],
    ['template_campaign', { ...templateCampaign, channel: 'sms', is_official: false }],
  ] as [IdentifiedResource, Record<string, unknown>][])(
    'of each %s are those of the specification',
    async ([resource, values], { shown }) => {
      const isTag = resource === 'tag';
      const stored = { created_at, ...(isTag ? {} : { updated_at }) };
      const times = { created_at: created, ...(isTag ? {} : { updated_at: updated }) };
      const inUtc = 'sent_at' in values ? { scheduled_for: '2026-02-01T12:00:00.000000Z' } : {};
      expect(await shown(resource, { ...values, ...stored })).toStrictEqual({
        ...values,
        ...inUtc,
        ...times,
      });
      expect(await shown(resource, stored)).toStrictEqual(times);
    },
  );

  it('of a customer lack an empty email', async ({ database, shop, get }) => {
    const values = { organization_id: shop.organizationId, email: '', name: '' };
    const id = encodeId('customer', await addRow(database.pool, 'customers', values));
    const single = (await get(`/v1/customers/${id}`)).json();
    expect(single).toHaveProperty('name', '');
    expect(single).not.toHaveProperty('email');
  });
});

describe('stored JSON of another shape', () => {
  it.for([
    ['{}', {}],
    ['{"sent": 9007199254740991, "delivered": 12.0}', { sent: 9007199254740991, delivered: 12 }],
    ['{"sent": "ten", "delivered": null, "opened": 1.5, "clicked": [1], "bounced": 3}', {}],
    ['{"sent": "10", "delivered": "1.5", "opened": "1e2", "clicked": ""}', { sent: 10 }],
    ['{"sent": 1e400, "delivered": true, "opened": -1}', { opened: -1 }],
    // An integer of the OpenAPI document has 64 bits.
    ['{"sent": 9223372036854775808, "delivered": 1e18}', { delivered: 1e18 }],
  ] as const)(
    'metrics show whole numbers under documented names: %s',
    async ([metrics, expected], { shown }) => {
      expect((await shown('email_campaign', { metrics })).metrics).toStrictEqual(expected);
    },
  );

  it.for([
    ['[]', []],
    ['[null, 1, "a", [], [{"id": "1"}]]', []],
    ['[{}]', [{}]],
    [
      '[{"id": 5, "order": "0", "weight": 1.5, "name": null, "category": "UTILITY", "body": "x"}]',
      // A number becomes text in a field of text, and plain decimal text a number in one of numbers.
      [{ id: '5', order: 0, category: 'UTILITY' }],
    ],
  ] as const)(
    'templates show documented fields only: %s',
    async ([templates, expected], { shown }) => {
      expect((await shown('template_campaign', { templates })).templates).toStrictEqual(expected);
    },
  );
});
