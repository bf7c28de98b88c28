import { useState } from 'preact/hooks';
import { announce } from '../components/announce.ts';
import { Code } from '../components/code.tsx';
import type { Requests } from '../view/requests.ts';
import { useDashboard } from './dashboard-state.ts';

const titles = {
  totals: 'Totals',
  series: 'Time series',
  ranking: 'Ranking',
  customer_types: 'New and returning customers',
  customers: 'Best customers',
  cohorts: 'Cohorts',
  purchases: 'Latest purchases',
  parquet: 'All purchases, as Parquet',
} as const satisfies Partial<Record<keyof Requests, string>>;

/** The requests of the view as lines for a shell, without the key. */
export function RequestLines() {
  const { requests } = useDashboard();
  return (
    <details class="requests">
      <summary>
        Requests of this view, for <code>curl</code>
      </summary>
      <div id="requests">
        {(Object.keys(titles) as (keyof typeof titles)[]).map((name) => {
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
    announce('Copied');
  };
  return (
    <div class="request">
      <h3>{title}</h3>
      <button type="button" class="quiet" aria-label={`Copy the request: ${title}`} onClick={copy}>
        {isCopied ? 'Copied' : 'Copy'}
      </button>
      <Code text={line} />
    </div>
  );
}
