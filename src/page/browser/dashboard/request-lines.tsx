import { useState } from 'preact/hooks';
import { announce } from '../components/announce.ts';
import { Code } from '../components/code.tsx';
import { Marked } from '../components/marked.tsx';
import { texts } from '../language/language.ts';
import type { Requests } from '../view/requests.ts';
import { useDashboard } from './dashboard-state.ts';

const titles = {
  totals: texts.totals.title,
  series: texts.downloads.series,
  sales: texts.sales.title,
  coupons: texts.fields.coupons,
  ranking: texts.ranking.title,
  customer_types: texts.customers.types,
  customers: texts.customers.best,
  cohorts: texts.cohorts.list,
  purchases: texts.purchases.title,
  parquet: texts.downloads.parquet,
} as const satisfies Partial<Record<keyof Requests, string>>;

/** The requests of the view as lines for a shell, without the key. */
export function RequestLines() {
  const { requests } = useDashboard();
  return (
    <details class="requests">
      <summary>
        <Marked text={texts.downloads.requests} />
      </summary>
      <div id="requests">
        {(Object.keys(titles) as (keyof typeof titles)[]).map((name) => {
          if (requests[name] === null) return null;
          const saveAs = name === 'parquet' ? '-o purchases.parquet ' : '';
          const url = `${location.origin}${requests[name]}`;
          // URLs contain no character that double quotes would not protect.
          const line = `curl -f ${saveAs}-H "Authorization: Bearer $KEY" "${url}"`;
          return <RequestLine key={line} title={titles[name]} line={line} />;
        })}
      </div>
    </details>
  );
}

function RequestLine({ title, line }: { readonly title: string; readonly line: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(line);
    setCopied(true);
    announce(texts.downloads.copied);
  };
  return (
    <div class="request">
      <h3>{title}</h3>
      <button type="button" class="quiet" aria-label={texts.downloads.copyOf(title)} onClick={copy}>
        {isCopied ? texts.downloads.copied : texts.downloads.copy}
      </button>
      <Code text={line} />
    </div>
  );
}
