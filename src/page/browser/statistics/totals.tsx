import type { Stats, Totals as TotalAmounts } from '../api/responses.ts';
import { type Loaded, useDashboard } from '../dashboard/dashboard-state.ts';
import { formatChange, formatCount, formatMoney, formatSpan } from '../display/format.ts';
import { previousSpan } from '../view/period.ts';
import { isMoney, type MeasureName, measureLabels, measureNames } from '../view/view-state.ts';
import { changeBetween, directionOf, haveOneCurrency } from './change.ts';

/** The totals as buttons, which choose the measure of the chart. */
export function Totals() {
  const { shown, change } = useDashboard();
  const current = shown?.data.ranking?.body;
  return (
    <section class="cards" id="totals" aria-label="Totals">
      {shown !== null &&
        current !== undefined &&
        measureNames.map((measure) => (
          <button
            key={measure}
            type="button"
            class="card"
            data-measure={measure}
            aria-pressed={measure === shown.view.state.measure}
            onClick={() => change({ measure })}
          >
            <span class="card-label">
              {measureLabels[measure]}{' '}
              <span class="card-statuses">{shown.view.state.filters.status ?? 'all statuses'}</span>
            </span>
            <Value lines={amountsOf(measure, current, shown.data.currencies)} />
            <Change measure={measure} current={current} shown={shown} />
          </button>
        ))}
    </section>
  );
}

/** Long amounts are in a smaller font (results.css). */
function Value({ lines }: { readonly lines: readonly string[] }) {
  const length = Math.max(...lines.map(({ length }) => length));
  return (
    <span class="card-value" style={{ '--length': String(length) }}>
      {lines.length === 1
        ? lines
        : lines.map((line) => (
            <span key={line} class="line">
              {line}
            </span>
          ))}
    </span>
  );
}

const currenciesShown = 3;

/** Amounts of several currencies stay apart: their sum would mean nothing. */
function amountsOf(
  measure: MeasureName,
  current: TotalAmounts,
  currencies: Stats | null,
): readonly string[] {
  if (!isMoney(measure)) return [formatCount(current[measure])];
  if (hasNoAverage(measure, current)) return ['–'];
  if (!current.mixed_currencies) return [formatMoney(current[measure], current.currency)];
  if (currencies === null) return ['–'];
  const name = measure as 'revenue_in_cents' | 'average_ticket_in_cents';
  const { groups } = currencies;
  const shown = groups.slice(0, currenciesShown).map((one) => formatMoney(one[name], one.key));
  const more = groups.length - shown.length;
  return more > 0 ? [...shown, `and ${more} more`] : shown;
}

const hasNoAverage = (measure: MeasureName, { purchase_count: count }: TotalAmounts): boolean =>
  measure === 'average_ticket_in_cents' && BigInt(count) === 0n;

type ChangeProperties = {
  readonly measure: MeasureName;
  readonly current: TotalAmounts;
  readonly shown: Loaded;
};

function Change({ measure, current, shown }: ChangeProperties) {
  const { previous } = shown.data;
  const { state, at } = shown.view;
  const span = previousSpan(state, at);
  if (previous === null || span === null) return <span class="card-change" />;
  if (isMoney(measure) && !haveOneCurrency(current, previous)) {
    return <span class="card-change">several currencies</span>;
  }
  if (hasNoAverage(measure, current) || hasNoAverage(measure, previous)) {
    return <span class="card-change">–</span>;
  }
  const [now, before] = [BigInt(current[measure]), BigInt(previous[measure])];
  const change = changeBetween(now, before);
  if (change === null) {
    return <span class="card-change">{now === 0n ? 'as before' : 'none before'}</span>;
  }
  const amount = isMoney(measure)
    ? formatMoney(previous[measure], previous.currency)
    : formatCount(previous[measure]);
  const from = `${amount} in ${formatSpan(span, state.timezone)}`;
  return (
    <span class={`card-change ${directionOf(change)}`} title={from}>
      {formatChange(change)}
      <span class="visually-hidden"> from {from}</span>
    </span>
  );
}
