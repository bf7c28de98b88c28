import { namesOf } from './customers.ts';
import { type Pages, readPages } from './pages.ts';
import type { Purchase } from './responses.ts';

export type PurchasePages = Pages<Purchase>;

/** Purchases with the names of their customers, which one more request for each page reads. */
export const listPurchases = (path: string, signal: AbortSignal): Promise<PurchasePages> =>
  readPages(path, { signal, complete: addNames });

async function addNames(
  purchases: readonly Purchase[],
  signal?: AbortSignal,
): Promise<readonly Purchase[]> {
  const ids = purchases.map(({ customer_id: id }) => id);
  const names = await namesOf(ids, signal);
  return purchases.map((purchase) => ({
    ...purchase,
    customer_name: names.get(purchase.customer_id) ?? purchase.customer_id,
  }));
}
