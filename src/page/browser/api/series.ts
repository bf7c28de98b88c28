import { texts } from '../language/language.ts';
import { startsOf } from '../view/interval.ts';
import { currentSpan, type Span, spanOf, stepOf } from '../view/period.ts';
import type { ViewState } from '../view/view-state.ts';
import { ApiProblem, get } from './api.ts';
import type { Amounts, Period, Report, TimeSeries } from './responses.ts';

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
  /** The instant of the data. */
  readonly asOf: number;
};

type View = { readonly state: ViewState; readonly at: number };

/** Reads a report by one period, or a time series by a dimension. */
export async function loadSeries(path: string, view: View, signal: AbortSignal): Promise<Series> {
  const { body, asOf } = await get<Report | TimeSeries>(path, signal).catch((error) => {
    // The chart has a control for the period, which is a dimension of the report.
    throw error instanceof ApiProblem && error.param === 'group_by' ? tooManyPeriods() : error;
  });
  const instant = asOf?.instant.getTime() ?? view.at;
  if (!('rows' in body)) {
    return { ...body, span: currentSpan(view.state, view.at), compared: null, asOf: instant };
  }
  const interval = body.group_by[0] ?? '';
  const current = spanOf(body.period, body.timezone);
  const compared = spanOf(body.compared_period, body.timezone);
  const { timezone } = body;
  const [first] = current === null ? [] : startsOf(current, { interval, timezone });
  const rows = body.rows
    .map((row) => ({ ...row, starts_at: String(row[interval]) }))
    .filter(isOfPeriod(first));
  const periods: readonly Period[] = rows;
  const amounts = rows.flatMap(({ compared }) => compared ?? []);
  return {
    interval,
    timezone: body.timezone,
    currency: body.currency,
    group_by: null,
    series: [{ key: null, periods }],
    series_truncated: false,
    span: current && { ...current, end: Math.min(current.end, instant) },
    compared: compared && { span: compared, amounts, step: stepOf(view.state.compare_to) },
    asOf: instant,
  };
}

/** Without rows of dates that only the compared time has. These are earlier, or follow a row with the same beginning. */
const isOfPeriod =
  (first: string | undefined) =>
  ({ starts_at: start }: Period, index: number, rows: readonly Period[]): boolean =>
    start !== rows[index - 1]?.starts_at &&
    (first === undefined || Date.parse(start) >= Date.parse(first));

const tooManyPeriods = () => new ApiProblem(texts.problems.interval, 422, 'interval');
