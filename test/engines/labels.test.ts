import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { test as it } from '../support/fixtures.ts';
import { addPurchase } from '../support/shop.ts';

it('shows and finds the labels of each generation that shares a base', { tags: ['slow'] }, async ({
  database,
  directory,
  shop: { organizationId },
  customerId,
  worker,
  engine,
}) => {
  const labels = ['first', 'second', null, 'third', 'first', 'fourth'];
  const bases = new Set<string | undefined>();
  for (const [index, label] of labels.entries()) {
    const created = `2026-01-0${index + 1}T00:00:00Z`;
    const values = { customer_id: customerId, created_at: created, utm_source: label };
    await addPurchase(database.pool, organizationId, values);
    await worker.once([organizationId]);
    const published = readPublished(organizationDirectory(directory, organizationId));
    bases.add(published?.base);
    while ((await engine.version(organizationId))?.name !== published?.file) await sleep(10);
    const { result } = await engine.list(organizationId, { filters: {}, limit: 100 });
    const shown = labels.slice(0, index + 1);
    expect(result.purchases.map((purchase) => purchase.utm_source)).toEqual(shown.toReversed());
    for (const source of ['first', 'second', 'third', 'fourth']) {
      const filters = { utm_source: source };
      const { result: matching } = await engine.list(organizationId, { filters, limit: 100 });
      expect(matching.purchases.map((purchase) => purchase.utm_source)).toEqual(
        shown.filter((label) => label === source),
      );
    }
  }
  expect(bases.size).toBe(1);
});
