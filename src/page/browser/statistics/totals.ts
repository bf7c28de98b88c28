import type { Stats, Totals } from '../api/responses.ts';
import { element } from '../display/elements.ts';
import { formatChange, formatCount, formatMoney } from '../display/format.ts';
import { isMoney, type MeasureName, measureNames } from '../view/view-state.ts';
import { changeBetween, directionOf, haveOneCurrency } from './change.ts';

export const measureLabels: Readonly<Record<MeasureName, string>> = {
  revenue_in_cents: 'Revenue',
  purchase_count: 'Purchases',
  customer_count: 'Customers',
  average_ticket_in_cents: 'Average ticket',
};

type TotalsView = {
  readonly current: Totals;
  readonly previous: Totals | null;
  /** The name of the period of `previous`. */
  readonly previousName: string;
  /** Which purchases count, such as `all statuses`. */
  readonly statuses: string;
  /** The groups by currency, if there are several. */
  readonly currencies: Stats | null;
  readonly measure: MeasureName;
  onMeasure(measure: MeasureName): void;
};

/** The totals as buttons, which choose the measure of the chart. */
export function renderTotals(container: HTMLElement, view: TotalsView): void {
  const focused = (document.activeElement as HTMLElement | null)?.dataset.measure;
  container.replaceChildren(
    ...measureNames.map((measure) => {
      const card = element(
        'button',
        {
          type: 'button',
          className: 'card',
          ariaPressed: String(measure === view.measure),
          onclick: () => view.onMeasure(measure),
        },
        element(
          'span',
          { className: 'card-label' },
          `${measureLabels[measure]} `,
          element('span', { className: 'card-statuses' }, view.statuses),
        ),
        linesOf(amountsOf(measure, view)),
        changeOf(measure, view),
      );
      card.dataset.measure = measure;
      return card;
    }),
  );
  container.querySelector<HTMLElement>(`[data-measure="${focused}"]`)?.focus();
}

/** Long amounts are in a smaller font (results.css). */
function linesOf(lines: readonly string[]): HTMLElement {
  const [first = ''] = lines;
  const shown =
    lines.length === 1
      ? [first]
      : lines.map((line) => element('span', { className: 'line' }, line));
  const value = element('span', { className: 'card-value' }, ...shown);
  value.style.setProperty('--length', String(Math.max(...lines.map(({ length }) => length))));
  return value;
}

const currenciesShown = 3;

/** Amounts of several currencies stay apart: their sum would mean nothing. */
function amountsOf(measure: MeasureName, { current, currencies }: TotalsView): string[] {
  if (!isMoney(measure)) return [formatCount(current[measure])];
  if (hasNoAverage(measure, current)) return ['–'];
  if (!current.mixed_currencies) return [formatMoney(current[measure], current.currency)];
  if (currencies === null) return ['–'];
  const name = measure as 'revenue_in_cents' | 'average_ticket_in_cents';
  const { groups } = currencies;
  const shown = groups.slice(0, currenciesShown);
  const more = groups.length - shown.length;
  return [
    ...shown.map((group) => formatMoney(group[name], group.key)),
    ...(more > 0 ? [`and ${more} more`] : []),
  ];
}

const hasNoAverage = (measure: MeasureName, { purchase_count: count }: Totals): boolean =>
  measure === 'average_ticket_in_cents' && BigInt(count) === 0n;

function changeOf(measure: MeasureName, view: TotalsView): HTMLElement {
  const { current, previous, previousName } = view;
  const show = (className: string, ...text: (Node | string)[]) =>
    element('span', { className: `card-change ${className}` }, ...text);
  if (previous === null) return show('', '');
  if (isMoney(measure) && !haveOneCurrency(current, previous)) {
    return show('', 'several currencies');
  }
  if (hasNoAverage(measure, current) || hasNoAverage(measure, previous)) return show('', '–');
  const [now, before] = [BigInt(current[measure]), BigInt(previous[measure])];
  const text = isMoney(measure)
    ? formatMoney(previous[measure], previous.currency)
    : formatCount(previous[measure]);
  const change = changeBetween(now, before);
  if (change === null) return show('', now === 0n ? 'as before' : 'none before');
  const direction = directionOf(change);
  const shown = show(
    direction,
    formatChange(change),
    element('span', { className: 'visually-hidden' }, ` from ${text} in ${previousName}`),
  );
  shown.title = `${text} in ${previousName}`;
  return shown;
}
