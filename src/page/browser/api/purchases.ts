import { get, pathOf } from './api.ts';
import type { Customer, Page, Purchase } from './responses.ts';

/** A page of purchases, and how to read the one after it. */
export type PurchasePages = {
  readonly page: Page<Purchase>;
  next(): Promise<PurchasePages>;
};

export async function listPurchases(path: string, signal?: AbortSignal): Promise<PurchasePages> {
  const { body: page, cursor } = await get<Page<Purchase>>(path, signal);
  return {
    page,
    next: () => {
      const after = new URLSearchParams({ starting_after: cursor ?? '' });
      return listPurchases(`${path.replace(/&starting_after=.*/, '')}&${after}`);
    },
  };
}

/** The same pages with the names of the customers, which one more request a page reads. */
export async function withNames(
  { page, next }: PurchasePages,
  signal?: AbortSignal,
): Promise<PurchasePages> {
  const data = await addNames(page.data, signal);
  return { page: { ...page, data }, next: async () => withNames(await next()) };
}

async function addNames(
  purchases: readonly Purchase[],
  signal?: AbortSignal,
): Promise<readonly Purchase[]> {
  const ids = [...new Set(purchases.map(({ customer_id: id }) => id))];
  if (ids.length === 0) return purchases;
  const path = pathOf('/customers', { ids: ids.join(), limit: String(ids.length) });
  const found = await get<Page<Customer>>(path, signal).catch((error) => {
    if (signal?.aborted) throw error;
    // Purchases without names are better than none.
    return null;
  });
  const names = new Map(found?.body.data.map((customer) => [customer.id, nameOf(customer)]));
  return purchases.map((purchase) => ({
    ...purchase,
    customer_name: names.get(purchase.customer_id) ?? purchase.customer_id,
  }));
}

export const nameOf = ({ name, email, phone, id }: Customer): string =>
  name ?? email ?? phone ?? id;
