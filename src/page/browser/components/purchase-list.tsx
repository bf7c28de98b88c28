import type { PurchasePages } from '../api/purchases.ts';
import type { Purchase } from '../api/responses.ts';
import { statusLabel } from '../display/dimensions.ts';
import { formatInstant, formatMoney } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { ActionButton } from './controls.tsx';
import { Label } from './label.tsx';
import { Table } from './table.tsx';

export type PurchaseListProperties = {
  readonly pages: PurchasePages;
  readonly timeZone?: string | undefined;
  readonly isOfCustomer?: boolean;
  /** Adds the rows of the next page. */
  onMore(): Promise<void>;
};

/** Purchases, newest first, with a button for the next page. */
export function PurchaseList({ pages, onMore, ...list }: PurchaseListProperties) {
  const { data, has_more } = pages.page;
  if (data.length === 0) return <p class="empty">{texts.purchases.none}</p>;
  const columns = [
    { name: list.isOfCustomer ? texts.purchases.purchase : texts.purchases.withCustomer },
    { name: texts.purchases.status },
    { name: texts.purchases.value, isNumber: true },
  ];
  return (
    <div data-focus-next=".purchase-list .scroll" class="purchase-list">
      <Table label={texts.purchases.list} columns={columns}>
        {data.map((purchase) => (
          <PurchaseRow key={purchase.id} purchase={purchase} {...list} />
        ))}
      </Table>
      {has_more && (
        <ActionButton class="quiet more" run={onMore}>
          {texts.purchases.more}
        </ActionButton>
      )}
    </div>
  );
}

type PurchaseRowProperties = Pick<PurchaseListProperties, 'timeZone' | 'isOfCustomer'> & {
  readonly purchase: Purchase;
};

function PurchaseRow({ purchase, timeZone, isOfCustomer }: PurchaseRowProperties) {
  const { id, customer_id: customer, payment_status: status, currency = null } = purchase;
  const order = purchase.order_number ?? id;
  return (
    <tr>
      <td>
        <a href={`/app/purchases/${id}`}>
          <Label text={order} title={order === id ? id : `${order} ${id}`} />
        </a>
        {!isOfCustomer && (
          <>
            {' '}
            <a href={`/app/customers/${customer}`}>
              <Label text={purchase.customer_name || customer} />
            </a>
          </>
        )}
        <span class="line muted">{formatInstant(purchase.created_at, timeZone)}</span>
      </td>
      <td class="badge-cell">{status === undefined ? '–' : <Badge status={status} />}</td>
      <td class="number">{formatMoney(purchase.purchase_value_in_cents, currency)}</td>
    </tr>
  );
}

/** The colour of a status is in tables.css; unknown ones are neutral. */
export function Badge({ status }: { readonly status: string }) {
  return (
    <span class="badge" data-status={status}>
      {statusLabel(status)}
    </span>
  );
}
