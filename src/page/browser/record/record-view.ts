import { get, pathOf } from '../api/api.ts';
import type { ExactInteger } from '../api/exact-json.ts';
import { listPurchases } from '../api/purchases.ts';
import type { Page } from '../api/responses.ts';
import { announce, byId, element, showView } from '../display/elements.ts';
import { formatCount, formatMoney } from '../display/format.ts';
import { clearProblems, type ProblemHandling, showProblem } from '../display/problems.ts';
import { badge, renderPurchases } from '../display/purchase-list.ts';
import { numberCell, tableOf } from '../display/table.ts';
import { factsOf, type RecordObject, sectionsOf } from './record-fields.ts';

type Load = (id: string) => Promise<(onProblem: (error: unknown) => void) => HTMLElement>;

/** The folders of `html_url`, and the list that belongs to each record. */
const folders: Readonly<Record<string, { readonly name: string; readonly loadList?: Load }>> = {
  customers: { name: 'Customer', loadList: loadPurchases },
  segments: { name: 'Segment', loadList: loadCustomers },
  flows: { name: 'Flow' },
  'email-campaigns': { name: 'Email campaign' },
  'template-campaigns': { name: 'Template campaign' },
};

type RecordPath = { readonly folder: string; readonly id: string };

/** The record of `/app/customers/cus_…`; null for other paths. */
export function recordOfPath(path: string): RecordPath | null {
  const match = /^\/app\/([a-z-]+)\/([^/]+)$/.exec(path);
  if (match === null) return null;
  const [, folder = '', id = ''] = match;
  return folder in folders ? { folder, id } : null;
}

export function openRecord(
  { folder, id }: RecordPath,
  onKeyRefused: ProblemHandling['onKeyRefused'],
): void {
  const { name, loadList } = folders[folder] as (typeof folders)[string];
  showView('record-view');
  document.title = name;
  const handling = { onKeyRefused, retry: () => void show() };
  const onProblem = (error: unknown) => showProblem(error, handling);
  void show();

  async function show(): Promise<void> {
    const results = byId('results');
    try {
      const [{ body: record }, list] = await Promise.all([
        get<RecordObject>(pathOf(`/${folder}/${id}`)),
        loadList?.(id),
      ]);
      clearProblems();
      const title = typeof record.name === 'string' ? record.name : `${name} without a name`;
      document.title = title;
      results.replaceChildren(
        panel(title, name, record),
        ...sectionsOf(record),
        ...(list === undefined ? [] : [list(onProblem)]),
      );
      announce(title);
    } catch (error) {
      results.replaceChildren();
      onProblem(error);
    }
    results.ariaBusy = 'false';
  }
}

function panel(title: string, kind: string, record: RecordObject): HTMLElement {
  const status = typeof record.status === 'string' ? [badge(record.status)] : [];
  return element(
    'section',
    { className: 'panel record' },
    element('p', { className: 'kind' }, kind),
    element('h1', {}, title, ' ', ...status),
    factsOf(record),
  );
}

async function loadPurchases(id: string): ReturnType<Load> {
  const path = pathOf(`/customers/${id}/purchases`, { limit: '25' });
  const pages = await listPurchases(path);
  return (onProblem) => {
    const content = element('div');
    renderPurchases(content, { pages, isOfCustomer: true, onProblem });
    const link = element('a', { href: `/#period=all&customer_id=${id}` }, 'Totals and time series');
    const head = element('div', { className: 'panel-head' }, element('h2', {}, 'Purchases'), link);
    return element('section', { className: 'panel' }, head, content);
  };
}

async function loadCustomers(id: string): ReturnType<Load> {
  const path = pathOf(`/segments/${id}/customers`, { sort: 'total_spent', limit: '25' });
  const { body: page } = await get<Page<RecordObject>>(path);
  return () => {
    const rows = page.data.map((customer) =>
      element(
        'tr',
        {},
        element(
          'th',
          { scope: 'row' },
          element(
            'a',
            { href: `/app/customers/${customer.id}` },
            String(customer.name ?? customer.email ?? customer.id),
          ),
        ),
        numberCell(formatCount(customer.total_orders as ExactInteger)),
        numberCell(formatMoney(customer.total_spent_in_cents as ExactInteger, null)),
      ),
    );
    const columns = [
      { name: 'Customer' },
      { name: 'Orders', isNumber: true },
      { name: 'Spent', isNumber: true },
    ];
    const title = page.has_more ? 'Customers who spent most' : 'Customers';
    return element(
      'section',
      { className: 'panel' },
      element('h2', {}, title),
      page.data.length === 0
        ? element('p', { className: 'empty' }, 'There are no customers.')
        : tableOf(title, columns, rows),
    );
  };
}
