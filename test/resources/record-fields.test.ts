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
  it('of a tag are those of the specification', async ({ shown }) => {
    expect(await shown('tag', { name: 'vip', color: '#FFF', created_at })).toStrictEqual({
      name: 'vip',
      color: '#FFF',
      created_at: created,
    });
    expect(await shown('tag', { created_at })).toStrictEqual({ created_at: created });
  });

  it('of an attribute definition are those of the specification', async ({ shown }) => {
    const values = { name: 'size', type: 'text', description: 'S to XL' };
    expect(await shown('attribute', { ...values, created_at, updated_at })).toStrictEqual({
      ...values,
      created_at: created,
      updated_at: updated,
    });
    expect(await shown('attribute', { created_at, updated_at })).toStrictEqual({
      created_at: created,
      updated_at: updated,
    });
  });

  it('of a customer lack an empty email', async ({ database, shop, get }) => {
    const values = { organization_id: shop.organizationId, email: '', name: '' };
    const id = encodeId('customer', await addRow(database.pool, 'customers', values));
    const single = (await get(`/v1/customers/${id}`)).json();
    expect(single).toHaveProperty('name', '');
    expect(single).not.toHaveProperty('email');
  });

  it('of a flow are those of the specification', async ({ shown }) => {
    const values = {
      status: 'active',
      name: 'Welcome',
      description: 'First\nsecond',
      trigger_event_type: 'customer_created',
      origin: 'template',
    };
    const run_count = 12;
    expect(await shown('flow', { ...values, run_count, created_at, updated_at })).toStrictEqual({
      ...values,
      run_count,
      created_at: created,
      updated_at: updated,
    });
    expect(await shown('flow', { created_at, updated_at })).toStrictEqual({
      created_at: created,
      updated_at: updated,
    });
  });

  it('of an email campaign are those of the specification', async ({ shown }) => {
    const values = { status: 'sent', scheduling_type: 'scheduled', name: 'Sale' };
    const metrics = { sent: 10, delivered: 9, opened: 5, clicked: 0 };
    expect(
      await shown('email_campaign', {
        ...values,
        created_at,
        updated_at,
        scheduled_for: '2026-02-01T09:00:00-03:00',
        sent_at: '2026-02-01T12:00:00.000001Z',
        metrics,
      }),
    ).toStrictEqual({
      ...values,
      created_at: created,
      updated_at: updated,
      scheduled_for: '2026-02-01T12:00:00.000000Z',
      sent_at: '2026-02-01T12:00:00.000001Z',
      metrics,
    });
    expect(await shown('email_campaign', { created_at, updated_at })).toStrictEqual({
      created_at: created,
      updated_at: updated,
    });
  });

  it('of a template campaign are those of the specification', async ({ shown }) => {
    const values = {
      status: 'sent',
      scheduling_type: 'scheduled',
      recipient_type: 'segment',
      name: 'Sale',
      templates: [
        { id: '1', order: 0, weight: 70, name: 'a', category: 'MARKETING', language: 'pt_BR' },
        { id: '2', order: 1, weight: 30 },
      ],
      metrics: { recipients: 10, sent: 9, delivered: 8, read: 7, failed: 1 },
    };
    for (const [channel, is_official] of [
      ['whatsapp', true],
      ['sms', false],
    ] as const) {
      expect(
        await shown('template_campaign', {
          ...values,
          channel,
          is_official,
          created_at,
          updated_at,
          scheduled_for: '2026-02-01T09:00:00-03:00',
          sent_at: '2026-02-01T12:00:01Z',
        }),
      ).toStrictEqual({
        ...values,
        channel,
        is_official,
        created_at: created,
        updated_at: updated,
        scheduled_for: '2026-02-01T12:00:00.000000Z',
        sent_at: '2026-02-01T12:00:01.000000Z',
      });
    }
    expect(await shown('template_campaign', { created_at, updated_at })).toStrictEqual({
      created_at: created,
      updated_at: updated,
    });
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
