import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { announce } from '../components/announce.ts';
import { Banner } from '../components/failures.tsx';
import { Label } from '../components/label.tsx';
import { Badge } from '../components/purchase-list.tsx';
import { useRequest } from '../components/use-request.ts';
import { formatMoney } from '../display/format.ts';
import { texts } from '../language/language.ts';
import type { RecordPath } from '../view/path.ts';
import { type LoadedRecord, loadRecord, withMore } from './load-record.ts';
import { Facts, Sections } from './record-fields.tsx';
import { CustomersOfSegment, PurchasesOfCustomer } from './record-lists.tsx';

/** The names of records, by the folder of `html_url`. */
const kinds: Readonly<Record<string, string>> = texts.records.kinds;

/** One record, with the list that belongs to it. */
export function RecordView(path: RecordPath) {
  const { folder, id } = path;
  const kind = kinds[folder] ?? '';
  const { value: loaded, problems, isBusy, show, retry } = useRequest(() => loadRecord(path));
  const title = loaded === null ? kind : titleOf(kind, loaded);
  useEffect(() => {
    document.title = title;
    if (loaded !== null) announce(title);
  }, [loaded?.record]);
  return (
    <>
      <Banner problems={problems} onRetry={retry} />
      <div id="results" aria-busy={isBusy}>
        {isBusy && <section class="panel record-placeholder" />}
        {loaded !== null && (
          <>
            <Heading kind={kind} title={title} loaded={loaded} />
            <Sections record={loaded.record} />
            {loaded.purchases !== null && (
              <PurchasesOfCustomer
                customerId={id}
                pages={loaded.purchases}
                onMore={() => show(() => withMore(loaded, 'purchases'))}
              />
            )}
            {loaded.customers !== null && (
              <CustomersOfSegment
                pages={loaded.customers}
                paid={loaded.paid}
                onMore={() => show(() => withMore(loaded, 'customers'))}
              />
            )}
          </>
        )}
      </div>
    </>
  );
}

/** A name may be an empty text. */
function titleOf(kind: string, { record, customerName }: LoadedRecord): string {
  // Of a purchase.
  if (customerName !== null) return String(record.order_number || record.id);
  return (typeof record.name === 'string' && record.name.trim()) || texts.records.unnamed(kind);
}

type HeadingProperties = {
  readonly kind: string;
  readonly title: string;
  readonly loaded: LoadedRecord;
};

function Heading({ kind, title, loaded }: HeadingProperties) {
  const { record, customerName } = loaded;
  // The status of a purchase is the order's own, which other systems write.
  const { payment_status, status, ...purchase } = record;
  const badge = customerName === null ? status : payment_status;
  const facts = customerName === null ? record : { ...purchase, order_status: status };
  return (
    <section class="panel record">
      <p class="kind">{kind}</p>
      <h1>
        <Label text={title} /> {typeof badge === 'string' && <Badge status={badge} />}
      </h1>
      <Facts
        record={facts}
        currency={typeof record.currency === 'string' ? record.currency : null}
        lines={{ ...spentBy(loaded), ...customerOf(loaded) }}
      />
    </section>
  );
}

type Lines = Readonly<Record<string, readonly ComponentChildren[]>>;

function customerOf({ record: { customer_id: id }, customerName }: LoadedRecord): Lines {
  if (customerName === null) return {};
  return {
    customer_id: [
      <a key="customer" href={`/app/customers/${id}`}>
        {customerName}
      </a>,
    ],
  };
}

/** The amounts that a customer has spent, each with its currency. */
function spentBy({ record, paid }: LoadedRecord): Lines {
  if (!('total_spent_in_cents' in record) || paid === null || paid.rows.length === 0) return {};
  const lines = paid.rows.map(({ currency, revenue_in_cents: revenue }) =>
    currency === null
      ? texts.records.withoutCurrency(formatMoney(revenue, null))
      : formatMoney(revenue, String(currency)),
  );
  return { total_spent_in_cents: lines };
}
