import { useEffect, useRef, useState } from 'preact/hooks';
import { problemOf } from './api/api.ts';
import { findCustomers, nameOf } from './api/customers.ts';
import type { Customer, Page } from './api/responses.ts';
import { announce } from './components/announce.ts';
import { formatCounted } from './display/format.ts';
import { texts } from './language/language.ts';

const pauseMs = 250;

/** A field in the head of the page that finds customers by name, email or phone. */
export function CustomerSearch() {
  const [search, setSearch] = useState({ text: '', pauseMs: 0 });
  /** A message in place of customers, if the search fails. Null without a search. */
  const [found, setFound] = useState<Page<Customer> | string | null>(null);
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
    const show = (page: Page<Customer>) => {
      setFound(page);
      const { found, foundMore } = texts.customerSearch;
      announce(formatCounted(page.data.length, page.has_more ? foundMore : found));
    };
    const run = async () => {
      try {
        const page = await findCustomers(search.text, signal);
        if (!signal.aborted) show(page);
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
    <search class="customer-search">
      <form onSubmit={submit} onKeyDown={closeByKey} onFocusOut={closeOutside}>
        <input
          ref={input}
          type="search"
          aria-label={texts.customerSearch.label}
          placeholder={texts.customerSearch.placeholder}
          autocomplete="off"
          spellcheck={false}
          maxLength={256}
          onInput={() => start(pauseMs)}
        />
        {found !== null && (
          <ul
            id="customers-found"
            class="floating"
            tabIndex={-1}
            aria-label={texts.customerSearch.list}
          >
            {typeof found === 'string' ? <li>{found}</li> : <Customers {...found} />}
          </ul>
        )}
      </form>
    </search>
  );
}

function Customers({ data, has_more }: Page<Customer>) {
  if (data.length === 0) return <li>{texts.customerSearch.none}</li>;
  return (
    <>
      {data.map((customer) => {
        const name = nameOf(customer);
        const others = [customer.email, customer.phone].filter((value) => value && value !== name);
        return (
          <li key={customer.id}>
            <a href={`/app/customers/${customer.id}`}>
              {name}
              <span class="line muted">{others.join(' · ')}</span>
            </a>
          </li>
        );
      })}
      {has_more && <li>{texts.customerSearch.more}</li>}
    </>
  );
}
