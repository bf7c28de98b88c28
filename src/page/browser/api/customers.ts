import { get } from './api.ts';
import { pathOf } from './path.ts';
import type { Customer, Page, Report } from './responses.ts';

/** A name may be an empty text. */
export const nameOf = ({ name, email, phone, id }: Customer): string =>
  name?.trim() || email || phone || id;

/** A report by customer, and the customers' names by id. */
export type BestCustomers = {
  readonly report: Report;
  readonly names: ReadonlyMap<string, string>;
};

export async function listBestCustomers(path: string, signal: AbortSignal): Promise<BestCustomers> {
  const { body: report } = await get<Report>(path, signal);
  const ids = report.rows.map(({ customer }) => String(customer));
  return { report, names: await namesOf(ids, signal) };
}

/** The names of customers by id, in one request. */
export async function namesOf(
  ids: readonly string[],
  signal?: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const unique = [...new Set(ids)];
  if (unique.length === 0) return new Map();
  const path = pathOf('/customers', { ids: unique.join(), limit: String(unique.length) });
  const found = await get<Page<Customer>>(path, signal).catch((error) => {
    if (signal?.aborted) throw error;
    // Ids without names are better than nothing.
    return null;
  });
  return new Map(found?.body.data.map((customer) => [customer.id, nameOf(customer)]));
}
