import type { Amounts, Period } from '../api/responses.ts';
import type { Series } from '../api/series.ts';
import { groupLabel } from '../display/dimensions.ts';
import {
  formatDays,
  formatInterval,
  formatShortCount,
  formatShortMoney,
  formatTicks,
  unitsOf,
} from '../display/format.ts';
import { formatMeasure, isMissing } from '../display/measures.ts';
import { texts } from '../language/language.ts';
import { dayAt } from '../view/calendar.ts';
import { comparedStarts, intervalAt } from '../view/interval.ts';
import { type Days, isPresent, type Span } from '../view/period.ts';
import { isMoney, type MeasureName, type ViewState } from '../view/view-state.ts';
import type { ChartData } from './chart.tsx';
import type { ChartLine } from './chart-line.ts';

type View = { readonly state: ViewState; readonly at: number };

type SeriesChart = ChartData & {
  readonly names: readonly string[];
  /** The days of each period. */
  readonly days: readonly Days[];
  /** What the legend says of periods that are not whole. */
  readonly partial: readonly string[];
  /** Whether there are more groups than lines. */
  readonly isTruncated: boolean;
};

/** The measure over time: what the chart draws, and the names of the periods. */
export function chartOf({ state }: View, current: Series): SeriesChart {
  const { measure } = state;
  const { interval, timezone, group_by: dimension, span, asOf } = current;
  const series = current.series.map(({ key, periods }) => ({
    key,
    periods: begun(periods, span?.end ?? asOf),
  }));
  const intervals = (series[0]?.periods ?? []).map(({ starts_at: start }) =>
    intervalAt(start, current, span, asOf),
  );
  const names = intervals.map((one) => formatInterval(one, interval, timezone));
  const isPartial = intervals.map((one) => one.isPartial);
  // The last one may go on, or the selected days end within it.
  const isPresentLast = span === null || isPresent(span.days, timezone, asOf);
  const hasPast = (isPresentLast ? isPartial.slice(0, -1) : isPartial).includes(true);
  const lines = series.map(({ key, periods }, index) => {
    const label = dimension === null ? '' : groupLabel(dimension, key, timezone);
    return lineOf(measure, periods, {
      label: dimension === null ? nameOf(span) : label,
      names: dimension === null ? names : names.map(() => label),
      currency: dimension === 'currency' ? key : current.currency,
      color: `--line-${index + 1}`,
    });
  });
  const before = comparedLine(measure, current, series[0]?.periods ?? []);
  const starts = intervals.map(({ start }) => start);
  return {
    names,
    days: intervals.map(({ start, end }) => ({
      from: dayAt(start, timezone),
      to: dayAt(Math.max(start, end - 1), timezone),
    })),
    isPartial,
    partial: [
      ...(hasPast ? [texts.series.incomplete[interval as 'week'] ?? ''] : []),
      ...(isPresentLast && isPartial.at(-1) ? [texts.series.untilNow] : []),
    ],
    lines: before === null ? lines : [...lines, before],
    isTruncated: current.series_truncated,
    title: (index) => (dimension === null ? '' : (names[index] ?? '')),
    ticks: formatTicks(starts, interval, timezone),
    formatAxis: (value) =>
      isMoney(measure) ? formatShortMoney(value, current.currency) : formatShortCount(value),
  };
}

/** Without periods that begin after the data end, unless a purchase has a later time. */
function begun(periods: readonly Period[], end: number): readonly Period[] {
  const isShown = ({ starts_at, purchase_count }: Period) =>
    Date.parse(starts_at) < end || Number(purchase_count) > 0;
  return periods.slice(0, periods.findLastIndex(isShown) + 1);
}

const nameOf = (span: Span | null): string =>
  span === null ? texts.periods.all : formatDays(span.days);

/** Null without a comparison. A period that is compared with none has a gap. */
function comparedLine(
  measure: MeasureName,
  current: Series,
  periods: readonly Period[],
): ChartLine | null {
  const { compared, interval, timezone } = current;
  if (compared === null) return null;
  const { span, amounts, step } = compared;
  const own = periods.map(({ starts_at: start }) => start);
  const starts = comparedStarts(own, span, current, step);
  const names = starts.map((start) =>
    start === undefined
      ? ''
      : formatInterval(intervalAt(start, current, span, span.end), interval, timezone),
  );
  const before = starts.map((start, index) =>
    start === undefined ? null : (amounts[index] ?? null),
  );
  return lineOf(measure, before, {
    label: nameOf(span),
    names,
    currency: current.currency,
    color: '--line-previous',
  });
}

type LineProperties = Pick<ChartLine, 'label' | 'names' | 'color'> & {
  readonly currency: string | null;
};

function lineOf(
  measure: MeasureName,
  periods: readonly (Amounts | null)[],
  { currency, ...line }: LineProperties,
): ChartLine {
  return {
    ...line,
    // A pixel needs no exact value.
    values: periods.map((period) => {
      if (period === null || isMissing(measure, period)) return null;
      return isMoney(measure) ? unitsOf(period[measure], currency) : Number(period[measure]);
    }),
    text: (index) => {
      const period = periods[index] ?? null;
      return period === null ? '–' : formatMeasure(measure, period, currency);
    },
  };
}
