import type { PurchasePages } from '../api/purchases.ts';
import type { Purchase } from '../api/responses.ts';
import { element, moveFocus, runOnce } from './elements.ts';
import { formatInstant, formatMoney } from './format.ts';
import { numberCell, tableOf } from './table.ts';

type PurchaseList = {
  readonly pages: PurchasePages;
  readonly timeZone?: string;
  readonly isOfCustomer?: boolean;
  /** After another page is shown. */
  onMore?(count: number): void;
  onProblem(error: unknown): void;
};

/** Purchases, newest first, with a button for the next page. */
export function renderPurchases(container: HTMLElement, list: PurchaseList): void {
  const { isOfCustomer = false } = list;
  const { page } = list.pages;
  if (page.data.length === 0) {
    container.replaceChildren(element('p', { className: 'empty' }, 'There are no purchases.'));
    return;
  }
  const columns = [
    { name: isOfCustomer ? 'Purchase' : 'Purchase and customer' },
    { name: 'Status' },
    { name: 'Value', isNumber: true },
  ];
  const rows = page.data.map((purchase) => rowOf(purchase, list));
  const table = tableOf('Purchases', columns, rows);
  container.replaceChildren(table);
  const body = table.querySelector('tbody');
  if (page.has_more && body !== null) container.append(moreButton(body, list));
}

function moreButton(body: HTMLElement, list: PurchaseList): HTMLElement {
  let shown = list.pages;
  const button = element('button', { type: 'button', className: 'quiet more' }, 'Load more');
  const loadMore = async () => {
    try {
      const next = await shown.next();
      if (!body.isConnected) return;
      body.append(...next.page.data.map((purchase) => rowOf(purchase, list)));
      list.onMore?.(body.childElementCount);
      shown = next;
      if (next.page.has_more) return;
      moveFocus(button, body.closest('.scroll') as HTMLElement);
      button.remove();
    } catch (error) {
      list.onProblem(error);
    }
  };
  button.addEventListener('click', () => void runOnce(button, loadMore));
  return button;
}

function rowOf(purchase: Purchase, { timeZone, isOfCustomer = false }: PurchaseList): HTMLElement {
  const { id, customer_id: customer, created_at: createdAt, payment_status: status } = purchase;
  const date = element('span', { className: 'line muted' }, formatInstant(createdAt, timeZone));
  const href = `/app/customers/${customer}`;
  const link = element('a', { href }, purchase.customer_name ?? customer);
  return element(
    'tr',
    {},
    element(
      'td',
      {},
      element('span', { title: id }, purchase.order_number ?? id),
      ...(isOfCustomer ? [] : [' ', link]),
      date,
    ),
    element('td', {}, status === undefined ? '–' : badge(status)),
    numberCell(formatMoney(purchase.purchase_value_in_cents, purchase.currency ?? null)),
  );
}

/** The colour of a status is in page.css; unknown ones are neutral. */
export function badge(status: string): HTMLElement {
  const created = element('span', { className: 'badge' }, status);
  created.dataset.status = status;
  return created;
}
