import { describe, expect } from 'vitest';
import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { test } from '../support/fixtures.ts';
import { addRow } from '../support/rows.ts';

const it = test.extend(
  'single',
  ({ database, shop, get }) =>
    async (resource: IdentifiedResource, url: string, values: Record<string, unknown>) => {
      const table = url.replace('-', '_').slice('/v1/'.length);
      const row = { organization_id: shop.organizationId, ...values };
      const id = await addRow(database.pool, table, row);
      const response = await get(`${url}/${encodeId(resource, id)}`);
      expect(response.statusCode, response.body).toBe(200);
      return response.json();
    },
);

describe('a row that has every field', () => {
  it('of a customer shows all nine texts of the address', async ({ single }) => {
    const default_address = {
      id: '7',
      street: 'Rua A',
      number: '1',
      city: 'São Paulo',
      state: 'SP',
      country: 'BR',
      zip_code: '01000-000',
      neighborhood: 'Sé',
      complement: 'apto 2',
    };
    const shown = await single('customer', '/v1/customers', { default_address });
    expect(shown.default_address).toStrictEqual(default_address);
  });

  it.for(['whatsapp', 'sms'])(
    'of a template campaign by %s shows its schedule',
    async (channel, { single }) => {
      const shown = await single('template_campaign', '/v1/template-campaigns', {
        channel,
        is_official: true,
        scheduled_for: '2026-02-01T09:00:00-03:00',
        sent_at: '2026-02-01T12:00:01Z',
      });
      expect(shown).toMatchObject({
        channel,
        is_official: true,
        scheduled_for: '2026-02-01T12:00:00.000000Z',
        sent_at: '2026-02-01T12:00:01.000000Z',
      });
    },
  );
});
