import { useEffect, useState } from 'preact/hooks';
import { get, problemOf } from '../api/api.ts';
import { nameOf } from '../api/customers.ts';
import { pathOf } from '../api/path.ts';
import type { ApiProblem } from '../api/problem.ts';
import { listPurchases, type PurchasePages } from '../api/purchases.ts';
import type { Page, Report } from '../api/responses.ts';
import { announce } from '../components/announce.ts';
import { Banner } from '../components/failures.tsx';
import { Badge, PurchaseList, type PurchaseListProperties } from '../components/purchase-list.tsx';
import { Table } from '../components/table.tsx';
import { formatCount, formatMoney } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { Facts, type RecordObject, Sections } from './record-fields.tsx';

/** The names of records, by the folder of `html_url`. */
const kinds: Readonly<Record<string, string>> = texts.records.kinds;

type RecordPath = { readonly folder: string; readonly id: string };

/** The record of `/app/customers/cus_…`; null for other paths. */
export function recordOfPath(path: string): RecordPath | null {
  const match = /^\/app\/([a-z-]+)\/([^/]+)$/.exec(path);
  if (match === null) return null;
  const [, folder = '', id = ''] = match;
  return folder in kinds ? { folder, id } : null;
}

type Loaded = {
  readonly record: RecordObject;
  /** Of a customer. */
  readonly purchases: PurchasePages | null;
  /** Of a segment. */
  readonly customers: Page<RecordObject> | null;
  /** The paid purchases of a customer by currency, or those of a segment's organization. Null if not loaded. */
  readonly paid: Report | null;
};

async function load({ folder, id }: RecordPath): Promise<Loaded> {
  const path = `/${folder}/${id}`;
  const [record, purchases, customers, paid] = await Promise.all([
    get<RecordObject>(pathOf(path)),
    folder === 'customers' ? listPurchases(pathOf(`${path}/purchases`, { limit: '25' })) : null,
    folder === 'segments'
      ? get<Page<RecordObject>>(pathOf(`${path}/customers`, { sort: 'total_spent', limit: '25' }))
      : null,
    // The sums of the record have no currency.
    folder === 'customers' || folder === 'segments'
      ? get<Report>(
          pathOf('/purchases/report', {
            status: 'paid',
            group_by: 'currency',
            order_by: '-purchase_count',
            customer_id: folder === 'customers' ? id : undefined,
          }),
        ).catch(() => null)
      : null,
  ]);
  return {
    record: record.body,
    purchases,
    customers: customers?.body ?? null,
    paid: paid?.body ?? null,
  };
}

const withMore = async (loaded: Loaded): Promise<Loaded> => ({
  ...loaded,
  purchases: (await loaded.purchases?.next()) ?? null,
});

/** One record, with the list that belongs to it. */
export function RecordView({ folder, id }: RecordPath) {
  const kind = kinds[folder] ?? '';
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [problems, setProblems] = useState<readonly ApiProblem[]>([]);
  const [isBusy, setBusy] = useState(true);
  /** Shows what a request makes of the record, or why it failed. */
  const show = async (request: () => Promise<Loaded>) => {
    try {
      setLoaded(await request());
      setProblems([]);
    } catch (error) {
      setProblems([problemOf(error)]);
    }
    setBusy(false);
  };
  const showRecord = () => show(() => load({ folder, id }));
  const name = loaded?.record.name;
  const title = (typeof name === 'string' && name.trim()) || texts.records.unnamed(kind);
  useEffect(() => void showRecord(), []);
  useEffect(() => {
    document.title = loaded === null ? kind : title;
    if (loaded !== null) announce(title);
  }, [loaded?.record]);
  return (
    <>
      <a class="back" href="/">
        {texts.records.back}
      </a>
      <Banner problems={problems} onRetry={showRecord} />
      <div id="results" aria-busy={isBusy}>
        {isBusy && <section class="panel record-placeholder" />}
        {loaded !== null && (
          <>
            <section class="panel record">
              <p class="kind">{kind}</p>
              <h1>
                {title}{' '}
                {typeof loaded.record.status === 'string' && (
                  <Badge status={loaded.record.status} />
                )}
              </h1>
              <Facts record={loaded.record} lines={spentBy(loaded)} />
            </section>
            <Sections record={loaded.record} />
            {loaded.purchases !== null && (
              <Purchases
                customerId={id}
                pages={loaded.purchases}
                onMore={() => show(() => withMore(loaded))}
              />
            )}
            {loaded.customers !== null && <Customers page={loaded.customers} paid={loaded.paid} />}
          </>
        )}
      </div>
    </>
  );
}

type PurchasesProperties = PurchaseListProperties & { readonly customerId: string };

function Purchases({ customerId, ...list }: PurchasesProperties) {
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

/** The amounts that a customer has spent, each with its currency. */
function spentBy({ record, paid }: Loaded): Readonly<Record<string, readonly string[]>> {
  if (!('total_spent_in_cents' in record) || paid === null || paid.rows.length === 0) return {};
  const lines = paid.rows.map(({ currency, revenue_in_cents: revenue }) =>
    currency === null
      ? texts.records.withoutCurrency(formatMoney(revenue, null))
      : formatMoney(revenue, String(currency)),
  );
  return { total_spent_in_cents: lines };
}

type CustomersProperties = { readonly page: Page<RecordObject>; readonly paid: Report | null };

function Customers({ page: { data, has_more }, paid }: CustomersProperties) {
  const title = has_more ? texts.records.bestCustomers : texts.records.customersTitle;
  // Of a shop with several currencies, the record does not say in which one a customer spent.
  const currency = paid?.currency ?? null;
  const columns = [
    { name: texts.records.kinds.customers },
    { name: texts.records.orders, isNumber: true },
    { name: texts.records.spent, isNumber: true },
  ];
  return (
    <section class="panel">
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
    </section>
  );
}
