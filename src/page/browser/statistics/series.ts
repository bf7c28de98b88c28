import type { ExactInteger } from '../api/exact-json.ts';
import type { Period, TimeSeries } from '../api/responses.ts';
import { groupLabel } from '../display/dimensions.ts';
import {
  formatCount,
  formatInterval,
  formatMoney,
  formatShortCount,
  formatShortMoney,
  formatSpan,
  formatTicks,
  unitsOf,
} from '../display/format.ts';
import { type Interval, intervalAt } from '../view/interval.ts';
import { currentSpan, previousSpan, type Span } from '../view/period.ts';
import { isMoney, type MeasureName, type ViewState } from '../view/view-state.ts';
import type { ChartData } from './chart.tsx';
import type { ChartLine } from './chart-line.ts';

type Series = {
  readonly state: ViewState;
  /** When the series were requested. */
  readonly at: number;
  readonly current: TimeSeries;
  readonly previous: TimeSeries | null;
};

/** The measure over time: what the chart draws, and the names of the periods. */
export function chartOf(view: Series): ChartData & { readonly names: readonly string[] } {
  const { state, at, current } = view;
  const { measure } = state;
  const { interval, timezone, group_by: dimension } = current;
  const span = currentSpan(state, at);
  const series = current.series.map(({ key, periods }) => ({ key, periods: begun(periods, at) }));
  const intervals = (series[0]?.periods ?? []).map(({ starts_at: start }) =>
    intervalAt(start, current, span, at),
  );
  const names = intervals.map((one) => formatInterval(one, interval, timezone));
  const isGrouped = dimension !== null;
  const lines = series.map(({ key, periods }, index) =>
    lineOf(measure, periods, {
      label: isGrouped ? groupLabel(dimension, key) : nameOf(span, timezone, 'All time'),
      names: isGrouped ? names.map(() => groupLabel(dimension, key)) : names,
      currency: dimension === 'currency' ? key : current.currency,
      color: `--line-${index + 1}`,
      isUnfinished: intervals.at(-1)?.isCut ?? false,
    }),
  );
  const before = isGrouped ? null : previousLine(view, intervals.length);
  const starts = intervals.map(({ start }) => start);
  return {
    names,
    lines: before === null ? lines : [...lines, before],
    title: (index) => (isGrouped ? (names[index] ?? '') : ''),
    ticks: formatTicks(starts, interval, timezone),
    formatAxis: (value) =>
      isMoney(measure) ? formatShortMoney(value, current.currency) : formatShortCount(value),
  };
}

/** Without the empty periods that have not begun. */
function begun(periods: readonly Period[], at: number): readonly Period[] {
  const isShown = ({ starts_at, purchase_count }: Period) =>
    Date.parse(starts_at) <= at || Number(purchase_count) > 0;
  return periods.slice(0, periods.findLastIndex(isShown) + 1);
}

const nameOf = (span: Span | null, timeZone: string, otherwise: string): string =>
  span === null ? otherwise : formatSpan(span, timeZone);

/** Null if the amounts have another currency, or there is no previous period. */
function previousLine({ state, at, current, previous }: Series, count: number): ChartLine | null {
  const { measure } = state;
  const periods = previous?.series[0]?.periods ?? [];
  const isComparable =
    !isMoney(measure) ||
    previous?.currency === current.currency ||
    Number(previous?.purchase_count) === 0;
  const span = previousSpan(state, at);
  if (periods.length === 0 || !isComparable || span === null) return null;
  const { interval, timezone } = current;
  const shown = Array.from({ length: count }, (_, index) => periods[index]);
  const intervals = shown.map((one): Interval | null =>
    one === undefined ? null : intervalAt(one.starts_at, current, span, at),
  );
  return lineOf(measure, shown, {
    label: nameOf(span, timezone, ''),
    names: intervals.map((one) => (one === null ? '' : formatInterval(one, interval, timezone))),
    currency: current.currency,
    color: '--line-previous',
    isUnfinished: false,
  });
}

type LineProperties = Pick<ChartLine, 'label' | 'names' | 'color' | 'isUnfinished'> & {
  readonly currency: string | null;
};

function lineOf(
  measure: MeasureName,
  periods: readonly (Period | undefined)[],
  { currency, ...line }: LineProperties,
): ChartLine {
  const format = (value: ExactInteger) =>
    isMoney(measure) ? formatMoney(value, currency) : formatCount(value);
  const values = periods.map((period) => {
    const isNothing = period === undefined || Number(period.purchase_count) === 0;
    // Nothing has no average.
    return isNothing && (period === undefined || measure === 'average_ticket_in_cents')
      ? null
      : period[measure];
  });
  return {
    ...line,
    // A pixel needs no exact value.
    values: values.map((value) => {
      if (value === null) return null;
      return isMoney(measure) ? unitsOf(value, currency) : Number(value);
    }),
    text: (index) => {
      const value = values[index] ?? null;
      return value === null ? '–' : format(value);
    },
  };
}
