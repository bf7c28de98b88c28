import { texts } from '../language/language.ts';
import { dayAt } from '../view/calendar.ts';
import { startsOf } from '../view/interval.ts';
import { currentSpan, type Days, intervalFor, type Span, spanOf, stepOf } from '../view/period.ts';
import { type RequestContext, requestsOf } from '../view/requests.ts';
import type { ViewState } from '../view/view-state.ts';
import { get } from './api.ts';
import { ApiProblem } from './problem.ts';
import type { Amounts, Period, Report, ReportRow, TimeSeries } from './responses.ts';

/** One series, or one for each group. */
export type Series = TimeSeries & {
  /** The time of the series; null for all time. */
  readonly span: Span | null;
  /** The amounts that the periods of the series are compared with. */
  readonly compared: {
    readonly span: Span;
    readonly amounts: readonly Amounts[];
    /** The months between compared dates; null if periods are compared by place. */
    readonly step: number | null;
  } | null;
  /** The periods, or those of each group, with their compared amounts. */
  readonly rows: readonly ReportRow[];
  /** Null of several series. */
  readonly totals: Amounts | null;
  /** The instant of the data. */
  readonly asOf: number;
};

/** The state of a view, and what its requests need in addition. */
type View = RequestContext & { readonly state: ViewState };

/** Reads a report by one period, or a time series by a dimension. */
export async function loadSeries(view: View, signal: AbortSignal): Promise<Series> {
  const { state, at } = view;
  const series = await readSeries(view, signal);
  if (state.period !== 'all' || state.interval !== 'auto') return series;
  // The first response tells since when there are data.
  const interval = intervalFor(daysOfData(series, at), state.compare_to);
  return interval === series.interval ? series : readSeries({ ...view, interval }, signal);
}

/** From the first purchase to the present day. Null without purchases. */
export function daysOfData({ series, timezone }: Series, now: number): Days | null {
  const first = series[0]?.periods[0];
  if (first === undefined) return null;
  return { from: dayAt(Date.parse(first.starts_at), timezone), to: dayAt(now, timezone) };
}

async function readSeries(view: View, signal: AbortSignal): Promise<Series> {
  const { state, at } = view;
  const path = requestsOf(state, view).series;
  const { body, asOf } = await get<Report | TimeSeries>(path, signal).catch((error) => {
    // The chart has a control for the period, which is a dimension of the report.
    throw error instanceof ApiProblem && error.param === 'group_by' ? tooManyPeriods() : error;
  });
  const instant = asOf?.instant.getTime() ?? at;
  if (!('rows' in body))
    return { ...seriesByGroup(body), span: currentSpan(state, at), asOf: instant };
  const interval = body.group_by[0] ?? '';
  const current = spanOf(body.period, body.timezone);
  const compared = spanOf(body.compared_period, body.timezone);
  const { timezone, currency } = body;
  const [first] = current === null ? [] : startsOf(current, { interval, timezone });
  const rows = body.rows
    .map((row) => ({ ...row, starts_at: String(row[interval]) }))
    .filter(isOfPeriod(first));
  const amounts = rows.flatMap(({ compared }) => compared ?? []);
  return {
    ...{ interval, timezone, currency, rows, totals: body.totals, asOf: instant },
    group_by: null,
    series: [{ key: null, periods: rows }],
    series_truncated: false,
    span: current && { ...current, end: Math.min(current.end, instant) },
    compared: compared && { span: compared, amounts, step: stepOf(state.compare_to) },
  };
}

/** A time series with the rows of a report. */
function seriesByGroup(body: TimeSeries) {
  const { interval, group_by } = body;
  const rows = body.series.flatMap(({ key, periods }) =>
    periods.map((period) => ({ ...period, [interval]: period.starts_at, [group_by ?? '']: key })),
  );
  return { ...body, rows, totals: null, compared: null };
}

/** Without rows of dates that only the compared time has. These are earlier, or follow a row with the same beginning. */
const isOfPeriod =
  (first: string | undefined) =>
  ({ starts_at: start }: Period, index: number, rows: readonly Period[]): boolean =>
    start !== rows[index - 1]?.starts_at &&
    (first === undefined || Date.parse(start) >= Date.parse(first));

const tooManyPeriods = () => new ApiProblem(texts.problems.interval, 422, 'interval');
