import { expect } from 'vitest';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/current.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import { test as it } from '../support/fixtures.ts';
import { untilShown } from '../support/published.ts';
import { addPurchase } from '../support/shop.ts';

it('shows and finds the labels of base and log after each change', async ({
  database,
  directory,
  shop: { organizationId },
  customerId,
  openWorker,
  engine,
}) => {
  const worker = await openWorker({ maxPurchasesWithoutBase: 0 });
  const labels = ['first', 'second', null, 'third', 'first', 'fourth'];
  const bases = new Set<string | null | undefined>();
  for (const [index, label] of labels.entries()) {
    const created = `2026-01-0${index + 1}T00:00:00Z`;
    const values = { customer_id: customerId, created_at: created, utm_source: label };
    await addPurchase(database.pool, organizationId, values);
    await worker.once([organizationId]);
    const folder = organizationDirectory(directory, organizationId);
    bases.add(readCurrent(folder, layoutVersion)?.base);
    await untilShown(engine, directory, organizationId);
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
  expect([...bases]).toEqual([expect.any(String)]);
});
