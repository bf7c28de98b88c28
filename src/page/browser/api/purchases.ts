import { get } from './api.ts';
import { namesOf } from './customers.ts';
import type { Page, Purchase } from './responses.ts';

/** The purchases of the first pages, and how to read those of one more. */
export type PurchasePages = {
  readonly page: Page<Purchase>;
  next(): Promise<PurchasePages>;
};

type Options = { readonly withNames?: boolean; readonly signal?: AbortSignal };

/** With `withNames`, one more request a page reads the names of the customers. */
export async function listPurchases(
  path: string,
  options: Options = {},
  before: readonly Purchase[] = [],
): Promise<PurchasePages> {
  const { body, cursor } = await get<Page<Purchase>>(path, options.signal);
  const rows = options.withNames ? await addNames(body.data, options.signal) : body.data;
  const data = [...before, ...rows];
  return {
    page: { ...body, data },
    next: () => {
      const after = new URLSearchParams({ starting_after: cursor ?? '' });
      const { signal: _, ...others } = options;
      return listPurchases(`${path.replace(/&starting_after=.*/, '')}&${after}`, others, data);
    },
  };
}

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
