import { foldersByPrefix } from '../view/path.ts';
import { get } from './api.ts';
import { nameOf } from './customers.ts';
import { pathOf } from './path.ts';
import { ApiProblem } from './problem.ts';
import type { Customer, Page, Purchase } from './responses.ts';

const maxFound = 8;

export type Found = {
  readonly purchases: readonly Purchase[];
  readonly customers: readonly Customer[];
  /** The record with an id that was searched. */
  readonly record: { readonly href: string; readonly name: string } | null;
  readonly hasMore: boolean;
};

const nothing: Found = { purchases: [], customers: [], record: null, hasMore: false };

/** Orders by number, customers by name, email or phone, and any record by its id. */
export async function find(text: string, signal: AbortSignal): Promise<Found> {
  const [, prefix = ''] = /^([a-z]{3})_[\w-]+$/.exec(text) ?? [];
  const folder = foldersByPrefix[prefix];
  if (folder !== undefined) return findRecord(folder, text, signal);
  const read = async <Item>(path: string, parameters: Readonly<Record<string, string>>) => {
    const url = pathOf(path, { ...parameters, limit: String(maxFound) });
    return (await get<Page<Item>>(url, signal)).body;
  };
  const hasDigit = /\d/.test(text);
  const [purchases, customers] = await Promise.all([
    hasDigit ? read<Purchase>('/purchases/search', { order_number: text }) : null,
    read<Customer>('/customers', { q: text }),
  ]);
  return {
    ...nothing,
    purchases: purchases?.data ?? [],
    customers: customers.data,
    hasMore: customers.has_more || purchases?.has_more === true,
  };
}

async function findRecord(folder: string, id: string, signal: AbortSignal): Promise<Found> {
  type Named = Customer & Pick<Purchase, 'order_number'>;
  const found = await get<Named>(pathOf(`/${folder}/${id}`), signal).catch((error) => {
    if (error instanceof ApiProblem && [400, 404, 422].includes(error.status)) return null;
    throw error;
  });
  if (found === null) return nothing;
  const name = found.body.order_number ?? nameOf(found.body);
  return { ...nothing, record: { href: `/app/${folder}/${id}`, name } };
}
