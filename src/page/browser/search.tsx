import { useEffect, useRef, useState } from 'preact/hooks';
import { problemOf } from './api/api.ts';
import { nameOf } from './api/customers.ts';
import { type Found, find } from './api/find.ts';
import type { Customer, Purchase } from './api/responses.ts';
import { announce } from './components/announce.ts';
import { formatCounted, formatInstant, formatMoney } from './display/format.ts';
import { texts } from './language/language.ts';

const pauseMs = 250;

/** A field in the head of the page that finds orders, customers and ids. */
export function Search() {
  const [search, setSearch] = useState({ text: '', pauseMs: 0 });
  /** A message in place of records, if the search fails. Null without a search. */
  const [found, setFound] = useState<Found | string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const close = () => setSearch({ text: '', pauseMs: 0 });
  const start = (pauseMs: number) =>
    setSearch({ text: input.current?.value.trim() ?? '', pauseMs });
  useEffect(() => {
    if (search.text === '') {
      setFound(null);
      return;
    }
    const searching = new AbortController();
    const { signal } = searching;
    const show = (one: Found) => {
      setFound(one);
      const { found, foundMore } = texts.search;
      announce(formatCounted(countOf(one), one.hasMore ? foundMore : found));
    };
    const run = async () => {
      try {
        const one = await find(search.text, signal);
        if (!signal.aborted) show(one);
      } catch (error) {
        if (!signal.aborted) setFound(problemOf(error).message);
      }
    };
    const timer = setTimeout(run, search.pauseMs);
    return () => {
      clearTimeout(timer);
      searching.abort();
    };
  }, [search]);
  const submit = (event: Event) => {
    event.preventDefault();
    start(0);
  };
  const closeByKey = ({ key }: KeyboardEvent) => {
    if (key !== 'Escape') return;
    close();
    input.current?.focus();
  };
  const closeOutside = ({ currentTarget, relatedTarget }: FocusEvent) => {
    if (!(currentTarget as Element).contains(relatedTarget as Node | null)) close();
  };
  return (
    <search class="search">
      <form onSubmit={submit} onKeyDown={closeByKey} onFocusOut={closeOutside}>
        <input
          ref={input}
          type="search"
          aria-label={texts.search.label}
          placeholder={texts.search.placeholder}
          autocomplete="off"
          spellcheck={false}
          maxLength={256}
          onInput={() => start(pauseMs)}
        />
        {found !== null && (
          <ul id="found" class="floating" tabIndex={-1} aria-label={texts.search.list}>
            {typeof found === 'string' ? <li>{found}</li> : <Records {...found} />}
          </ul>
        )}
      </form>
    </search>
  );
}

const countOf = ({ purchases, customers, record }: Found): number =>
  purchases.length + customers.length + (record === null ? 0 : 1);

function Records(found: Found) {
  const { purchases, customers, record, hasMore } = found;
  if (countOf(found) === 0) return <li>{texts.search.none}</li>;
  return (
    <>
      {record !== null && <Item {...record} details={[]} />}
      {purchases.map((purchase) => (
        <Item key={purchase.id} {...orderItem(purchase)} />
      ))}
      {customers.map((customer) => (
        <Item key={customer.id} {...customerItem(customer)} />
      ))}
      {hasMore && <li>{texts.search.more}</li>}
    </>
  );
}

const orderItem = (purchase: Purchase) => ({
  href: `/app/purchases/${purchase.id}`,
  name: `${texts.records.kinds.purchases} ${purchase.order_number ?? purchase.id}`,
  details: [
    formatMoney(purchase.purchase_value_in_cents, purchase.currency ?? null),
    formatInstant(purchase.created_at),
  ],
});

function customerItem(customer: Customer) {
  const name = nameOf(customer);
  const details = [customer.email, customer.phone].filter((one) => one && one !== name);
  return { href: `/app/customers/${customer.id}`, name, details };
}

type ItemProperties = {
  readonly href: string;
  readonly name: string;
  readonly details: readonly (string | undefined)[];
};

const Item = ({ href, name, details }: ItemProperties) => (
  <li>
    <a href={href}>
      {name}
      <span class="line muted">{details.join(' · ')}</span>
    </a>
  </li>
);
