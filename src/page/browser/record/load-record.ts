import { get } from '../api/api.ts';
import { namesOf } from '../api/customers.ts';
import { type Pages, readPages } from '../api/pages.ts';
import { pathOf } from '../api/path.ts';
import type { PurchasePages } from '../api/purchases.ts';
import type { Report } from '../api/responses.ts';
import type { RecordPath } from '../view/path.ts';
import type { RecordObject } from './record-fields.tsx';

export type LoadedRecord = {
  readonly record: RecordObject;
  /** The name of the customer of a purchase. */
  readonly customerName: string | null;
  /** Of a customer. */
  readonly purchases: PurchasePages | null;
  /** Of a segment. */
  readonly customers: Pages<RecordObject> | null;
  /** The paid purchases of a customer by currency, or those of a segment's organization. Null if not loaded. */
  readonly paid: Report | null;
};

export async function loadRecord({ folder, id }: RecordPath): Promise<LoadedRecord> {
  const path = `/${folder}/${id}`;
  const reading = get<RecordObject>(pathOf(path));
  const [{ body: record }, purchases, customers, paid] = await Promise.all([
    reading,
    folder === 'customers' ? readPages(pathOf(`${path}/purchases`, { limit: '25' })) : null,
    folder === 'segments'
      ? readPages(pathOf(`${path}/customers`, { sort: 'total_spent', limit: '25' }))
      : null,
    // The sums of the record have no currency.
    folder === 'customers' || folder === 'segments'
      ? get<Report>(
          pathOf('/purchases/report', {
            status: 'paid',
            group_by: 'currency',
            order_by: '-purchase_count',
            customer_id: folder === 'customers' ? id : undefined,
          }),
        ).catch(() => null)
      : null,
  ]);
  const customer = folder === 'purchases' ? String(record.customer_id) : null;
  return {
    record,
    customerName: customer && ((await namesOf([customer])).get(customer) ?? customer),
    purchases: purchases as PurchasePages | null,
    customers: customers as Pages<RecordObject> | null,
    paid: paid?.body ?? null,
  };
}

/** With the next page of a list of the record. */
export const withMore = async (
  loaded: LoadedRecord,
  name: 'purchases' | 'customers',
): Promise<LoadedRecord> => ({ ...loaded, [name]: await loaded[name]?.next() });
