import type { SalesReport, SalesRow } from '../api/responses.ts';
import { useDashboard } from '../dashboard/dashboard-state.ts';
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
type Measure = (typeof amounts)[number] | 'revenue_in_cents' | 'purchase_count';

/** How many orders of the period are paid, and what has become of the others. */
export const SalesPanel = () => (
  <Panel name="sales" id="sales" title={texts.sales.title} hint={texts.sales.hint} table={tableOf}>
    {(report) => <Steps report={report} />}
  </Panel>
);

const rowsOf = ({ rows }: SalesReport, step: Step): readonly SalesRow[] => {
  const statuses: readonly string[] | null = steps[step];
  return rows.filter(({ status }) => statuses === null || statuses.includes(status ?? ''));
};

const sumOf = (rows: readonly SalesRow[], measure: Measure): string =>
  String(rows.reduce((sum, row) => sum + BigInt(row[measure]), 0n));

function tableOf(report: SalesReport): CsvTable {
  const { currency } = report;
  return {
    columns: [
      texts.dimensions.status,
      texts.measures.purchase_count,
      texts.totals.value,
      ...amounts.map((name) => texts.fields[name]),
      texts.dimensions.currency,
    ],
    rows: stepNames.map((step) => {
      const rows = rowsOf(report, step);
      return [
        texts.sales[step],
        { plain: sumOf(rows, 'purchase_count') },
        ...(['revenue_in_cents', ...amounts] as const).map((name) =>
          report.mixed_currencies ? '' : amountCell(sumOf(rows, name), currency),
        ),
        currency ?? '',
      ];
    }),
  };
}

function Steps({ report }: { readonly report: SalesReport }) {
  const { state, change } = useDashboard();
  const all = Number(sumOf(report.rows, 'purchase_count'));
  // Amounts of several currencies have no sum.
  const money = (rows: readonly SalesRow[], measure: Measure) =>
    report.mixed_currencies ? '–' : formatMoney(sumOf(rows, measure), report.currency);
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
            <Amount text={money(rows, 'revenue_in_cents')} />
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
            <Amount text={money(rowsOf(report, 'paid'), name)} />
          </strong>
          <span class="muted">{texts.sales.ofPaid}</span>
        </div>
      ))}
    </div>
  );
}

/** Long amounts are in a smaller font (totals.css). */
const Amount = ({ text }: { readonly text: string }) => (
  <span class="step-amount" style={{ '--length': String(text.length) }}>
    {text}
  </span>
);
