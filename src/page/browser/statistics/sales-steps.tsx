import type { CouponReport, SalesAmounts, SalesReport } from '../api/responses.ts';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import type { Sales } from '../dashboard/load.ts';
import { Panel } from '../dashboard/panel.tsx';
import { amountCell, type CsvTable } from '../display/csv.ts';
import { formatCount, formatMoney, formatShare } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { hasFilter, withValues } from '../view/filters.ts';

/** From the creation of an order to its payment, or to its end without one: the payment statuses of each step. */
const steps = {
  created: null,
  paid: ['paid'],
  waiting: ['pending', 'authorized'],
  abandoned: ['abandoned'],
  refunded: ['refunded'],
  voided: ['voided'],
} as const satisfies Readonly<Record<string, readonly string[] | null>>;
type Step = keyof typeof steps;
const stepNames = Object.keys(steps) as Step[];

/** Amounts of paid orders. */
const amounts = ['discount_in_cents', 'shipping_cost_customer_in_cents'] as const;
type Measure = keyof SalesAmounts;

/** How many orders of the period are paid, and what has become of the others. */
export const SalesPanel = () => (
  <Panel name="sales" id="sales" title={texts.sales.title} hint={texts.sales.hint} table={tableOf}>
    {(sales) => <Steps {...sales} />}
  </Panel>
);

const rowsOf = ({ rows }: SalesReport, step: Step): readonly SalesAmounts[] => {
  const statuses: readonly string[] | null = steps[step];
  return rows.filter(({ status }) => statuses === null || statuses.includes(status ?? ''));
};

const sumOf = (rows: readonly SalesAmounts[], measure: Measure): string =>
  String(rows.reduce((sum, row) => sum + BigInt(row[measure]), 0n));

/**
 * Paid orders with any coupon: all but those with none. Null if the row of these is not among the first ones, so that
 * a hundred coupons have more orders each.
 */
function withCoupon({ totals, rows, rows_truncated }: CouponReport): SalesAmounts | null {
  const none = rows.find(({ coupon }) => coupon === null);
  if (none === undefined && rows_truncated) return null;
  const rest = (measure: Measure) => String(BigInt(totals[measure]) - BigInt(none?.[measure] ?? 0));
  return {
    purchase_count: rest('purchase_count'),
    revenue_in_cents: rest('revenue_in_cents'),
    discount_in_cents: rest('discount_in_cents'),
    shipping_cost_customer_in_cents: rest('shipping_cost_customer_in_cents'),
  };
}

/** The name of the line in a file, which follows orders of any status. */
const paidWithCoupon = `${texts.sales.paid}, ${texts.sales.withCoupon.toLowerCase()}`;

function tableOf({ byStatus, paidByCoupon }: Sales): CsvTable {
  const line = (
    name: string,
    rows: readonly SalesAmounts[],
    { currency, mixed_currencies: isMixed }: SalesReport | CouponReport,
  ) => [
    name,
    { plain: sumOf(rows, 'purchase_count') },
    ...(['revenue_in_cents', ...amounts] as const).map((measure) =>
      isMixed ? '' : amountCell(sumOf(rows, measure), currency),
    ),
    currency ?? '',
  ];
  const coupon = withCoupon(paidByCoupon);
  return {
    columns: [
      texts.dimensions.status,
      texts.measures.purchase_count,
      texts.totals.value,
      ...amounts.map((name) => texts.fields[name]),
      texts.dimensions.currency,
    ],
    rows: [
      ...stepNames.map((step) => line(texts.sales[step], rowsOf(byStatus, step), byStatus)),
      ...(coupon === null ? [] : [line(paidWithCoupon, [coupon], paidByCoupon)]),
    ],
  };
}

/** Amounts of several currencies have no sum. */
const moneyOf = (
  { currency, mixed_currencies: isMixed }: SalesReport | CouponReport,
  rows: readonly SalesAmounts[],
  measure: Measure,
): string => (isMixed ? '–' : formatMoney(sumOf(rows, measure), currency));

function Steps({ byStatus: report, paidByCoupon }: Sales) {
  const { state, change } = useDashboard();
  const all = Number(sumOf(report.rows, 'purchase_count'));
  const select = (step: Step) =>
    change({ filters: withValues(state.filters, 'status', steps[step] ?? []) });
  return (
    <div class="steps">
      {stepNames.map((step) => {
        const rows = rowsOf(report, step);
        const count = sumOf(rows, 'purchase_count');
        return (
          <button
            key={step}
            type="button"
            class="step"
            data-step={step}
            aria-pressed={
              steps[step] === null
                ? !hasFilter(state.filters, 'status')
                : state.filters.status?.join() === steps[step].join()
            }
            onClick={() => select(step)}
          >
            <span class="card-label">{texts.sales[step]}</span>
            <strong>{formatCount(count)}</strong>
            <Amount text={moneyOf(report, rows, 'revenue_in_cents')} />
            <span class="muted">
              {step === 'created' || all === 0
                ? ''
                : texts.sales.ofCreated(formatShare(Number(count) / all))}
            </span>
          </button>
        );
      })}
      {amounts.map((name) => (
        <div key={name} class="step">
          <span class="card-label">{texts.fields[name]}</span>
          <strong>
            <Amount text={moneyOf(report, rowsOf(report, 'paid'), name)} />
          </strong>
          <span class="muted">{texts.sales.ofPaid}</span>
        </div>
      ))}
      <WithCoupon report={paidByCoupon} />
    </div>
  );
}

function WithCoupon({ report }: { readonly report: CouponReport }) {
  const orders = withCoupon(report);
  const paid = Number(report.totals.purchase_count);
  return (
    <div class="step">
      <span class="card-label">{texts.sales.withCoupon}</span>
      <strong>{orders === null ? '–' : formatCount(orders.purchase_count)}</strong>
      {orders !== null && <Amount text={moneyOf(report, [orders], 'revenue_in_cents')} />}
      <span class="muted">
        {orders === null || paid === 0
          ? ''
          : texts.sales.shareOfPaid(formatShare(Number(orders.purchase_count) / paid))}
      </span>
    </div>
  );
}

/** Long amounts are in a smaller font (totals.css). */
const Amount = ({ text }: { readonly text: string }) => (
  <span class="step-amount" style={{ '--length': String(text.length) }}>
    {text}
  </span>
);
