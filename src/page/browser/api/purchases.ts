import { get, pathOf } from './api.ts';
import { nameOf } from './customers.ts';
import type { Customer, Page, Purchase } from './responses.ts';

/** The purchases of the first pages, and how to read those of one more. */
export type PurchasePages = {
  readonly page: Page<Purchase>;
  next(): Promise<PurchasePages>;
};

type ReadPage = (path: string, signal?: AbortSignal) => ReturnType<typeof get<Page<Purchase>>>;

const readPage: ReadPage = (path, signal) => get<Page<Purchase>>(path, signal);

/** Also with the names of the customers, which one more request a page reads. */
const readPageWithNames: ReadPage = async (path, signal) => {
  const { body, ...snapshot } = await readPage(path, signal);
  return { ...snapshot, body: { ...body, data: await addNames(body.data, signal) } };
};

export const listPurchases = (path: string): Promise<PurchasePages> =>
  listPages(readPage, path, []);

export const listPurchasesWithNames = (path: string, signal: AbortSignal): Promise<PurchasePages> =>
  listPages(readPageWithNames, path, [], signal);

async function listPages(
  read: ReadPage,
  path: string,
  before: readonly Purchase[],
  signal?: AbortSignal,
): Promise<PurchasePages> {
  const { body, cursor } = await read(path, signal);
  const data = [...before, ...body.data];
  return {
    page: { ...body, data },
    next: () => {
      const after = new URLSearchParams({ starting_after: cursor ?? '' });
      return listPages(read, `${path.replace(/&starting_after=.*/, '')}&${after}`, data);
    },
  };
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
