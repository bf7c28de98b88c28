import { ApiProblem, get, pathOf } from '../api/api.ts';
import { nameOf } from '../api/purchases.ts';
import type { Customer, Page } from '../api/responses.ts';
import { announce, byId, element } from '../display/elements.ts';

const pauseMs = 250;
const maxFound = 8;
/** Fewer digits are a part of a phone number. */
const minPhoneDigits = 8;

/** A field in the head of the page that finds customers by name, email or phone. */
export function connectCustomerSearch(onKeyRefused: (problem: string) => void): void {
  const form = byId<HTMLFormElement>('customer-form');
  const input = byId<HTMLInputElement>('customer-text');
  const list = byId('customers-found');
  let searching = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;

  const close = () => {
    clearTimeout(timer);
    searching.abort();
    list.hidden = true;
  };
  const show = (items: readonly HTMLElement[]) => {
    list.replaceChildren(...items);
    list.hidden = false;
  };
  const search = async () => {
    close();
    const text = input.value.trim();
    if (text === '') return;
    searching = new AbortController();
    const { signal } = searching;
    try {
      const page = await findCustomers(text, signal);
      if (signal.aborted) return;
      show(itemsOf(page));
      announce(`${page.data.length}${page.has_more ? ' or more' : ''} customers found`);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiProblem)) throw error;
      if (error.status === 401 || error.status === 403) onKeyRefused(error.message);
      else show([element('li', {}, error.message)]);
    }
  };
  input.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void search(), pauseMs);
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    void search();
  };
  form.onkeydown = ({ key }) => {
    if (key !== 'Escape') return;
    close();
    input.focus();
  };
  form.addEventListener('focusout', ({ relatedTarget }) => {
    if (!form.contains(relatedTarget as Node | null)) close();
  });
  input.value = '';
  list.hidden = true;
  byId('customer-search').hidden = false;
}

async function findCustomers(text: string, signal: AbortSignal): Promise<Page<Customer>> {
  const search = async (parameters: Readonly<Record<string, string>>) => {
    const path = pathOf('/customers', { ...parameters, limit: String(maxFound) });
    return (await get<Page<Customer>>(path, signal)).body;
  };
  const digits = text.replace(/\D/g, '');
  if (digits.length < minPhoneDigits || /[^\d\s()+./-]/.test(text)) return search({ q: text });
  // The whole number, however it is written, or a part of one.
  const found = await search({ phone: text });
  return found.data.length > 0 ? found : search({ q: digits });
}

function itemsOf({ data, has_more }: Page<Customer>): HTMLElement[] {
  if (data.length === 0) return [element('li', {}, 'No customer has this name, email or phone.')];
  const items = data.map((customer) => {
    const name = nameOf(customer);
    const others = [customer.email, customer.phone].filter((value) => value && value !== name);
    const details = element('span', { className: 'line muted' }, others.join(' · '));
    return element(
      'li',
      {},
      element('a', { href: `/app/customers/${customer.id}` }, name, details),
    );
  });
  return has_more
    ? [...items, element('li', {}, 'There are more: enter more of the name.')]
    : items;
}
