import { announce, byId, element } from '../display/elements.ts';
import type { Requests } from '../view/requests.ts';

const titles = {
  ranking: 'Totals and ranking',
  series: 'Time series',
  purchases: 'Latest purchases',
  parquet: 'All purchases, as Parquet',
} as const;

/** Shows the requests of the view as lines for a shell, without the key. */
export function renderRequests(requests: Requests): void {
  byId('requests').replaceChildren(
    ...Object.entries(titles).map(([name, title]) => {
      const path = requests[name as keyof typeof titles];
      const saveAs = name === 'parquet' ? '-o purchases.parquet ' : '';
      // URLs contain no character that double quotes would not protect.
      const line = `curl -f ${saveAs}-H "Authorization: Bearer $KEY" "${location.origin}${path}"`;
      const copy = element('button', { type: 'button', className: 'quiet' }, 'Copy');
      copy.ariaLabel = `Copy the request: ${title}`;
      copy.addEventListener('click', async () => {
        await navigator.clipboard.writeText(line);
        copy.textContent = 'Copied';
        announce('Copied');
      });
      const code = element('pre', { tabIndex: 0 }, element('code', {}, line));
      return element('div', { className: 'request' }, element('h3', {}, title), copy, code);
    }),
  );
}
