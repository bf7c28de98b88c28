import { nameOf } from '../api/customers.ts';
import type { Pages } from '../api/pages.ts';
import type { Report } from '../api/responses.ts';
import { ActionButton } from '../components/controls.tsx';
import { PurchaseList, type PurchaseListProperties } from '../components/purchase-list.tsx';
import { Table } from '../components/table.tsx';
import { formatCount, formatMoney } from '../display/format.ts';
import { texts } from '../language/language.ts';
import type { RecordObject } from './record-fields.tsx';

type PurchasesProperties = PurchaseListProperties & { readonly customerId: string };

export function PurchasesOfCustomer({ customerId, ...list }: PurchasesProperties) {
  return (
    <section class="panel">
      <div class="panel-head">
        <h2>{texts.purchases.list}</h2>
        <a href={`/#period=all&customer_id=${customerId}`}>{texts.records.statistics}</a>
      </div>
      <PurchaseList isOfCustomer {...list} />
    </section>
  );
}

type CustomersProperties = {
  readonly pages: Pages<RecordObject>;
  readonly paid: Report | null;
  onMore(): Promise<void>;
};

export function CustomersOfSegment({ pages, paid, onMore }: CustomersProperties) {
  const { data, has_more } = pages.page;
  const title = has_more ? texts.records.bestCustomers : texts.records.customersTitle;
  // Of a shop with several currencies, the record does not say in which one a customer spent.
  const currency = paid?.currency ?? null;
  const columns = [
    { name: texts.records.kinds.customers },
    { name: texts.records.orders, isNumber: true },
    { name: texts.records.spent, isNumber: true },
  ];
  return (
    <section class="panel" data-focus-next="#main">
      <h2>{title}</h2>
      {data.length === 0 ? (
        <p class="empty">{texts.customers.none}</p>
      ) : (
        <Table label={title} columns={columns}>
          {data.map(({ total_orders, total_spent_in_cents, ...customer }) => (
            <tr key={customer.id}>
              <th scope="row">
                <a href={`/app/customers/${customer.id}`}>{nameOf(customer)}</a>
              </th>
              <td class="number">{formatCount(total_orders as number)}</td>
              <td class="number">{formatMoney(total_spent_in_cents as number, currency)}</td>
            </tr>
          ))}
        </Table>
      )}
      {has_more && (
        <ActionButton class="quiet more" run={onMore}>
          {texts.purchases.more}
        </ActionButton>
      )}
    </section>
  );
}
