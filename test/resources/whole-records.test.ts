import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { addRow } from '../support/rows.ts';
import { createTwoShops, type TwoShops } from '../support/two-shops.ts';

let shops: TwoShops;
beforeAll(async () => {
  shops = await createTwoShops();
});
afterAll(() => shops.close());

async function single(resource: IdentifiedResource, url: string, values: Record<string, unknown>) {
  const table = url.replace('-', '_').slice('/v1/'.length);
  const row = { organization_id: shops.organizationId, ...values };
  const id = await addRow(shops.database.pool, table, row);
  const response = await shops.api.get(`${url}/${encodeId(resource, id)}`, shops.secret);
  expect(response.statusCode, response.body).toBe(200);
  return response.json();
}

describe('a row that has every field', () => {
  it('of a customer shows all nine texts of the address', async () => {
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

  it.each(['whatsapp', 'sms'])(
    'of a template campaign by %s shows when it is due',
    async (channel) => {
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
