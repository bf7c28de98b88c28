import { texts } from '../language/language.ts';
import { currentSpan, type Span, spanOf } from '../view/period.ts';
import type { ViewState } from '../view/view-state.ts';
import { ApiProblem, get } from './api.ts';
import type { Amounts, Period, Report, TimeSeries } from './responses.ts';

/** One series, or one for each group. */
export type Series = TimeSeries & {
  /** The time of the series; null for all time. */
  readonly span: Span | null;
  /** The same number of periods of the compared time. */
  readonly compared: { readonly span: Span; readonly amounts: readonly Amounts[] } | null;
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
  const periods = body.rows.map((row): Period => ({ ...row, starts_at: String(row[interval]) }));
  const current = spanOf(body.period, body.timezone);
  const compared = spanOf(body.compared_period, body.timezone);
  const amounts = body.rows.flatMap(({ compared }) => compared ?? []);
  return {
    interval,
    timezone: body.timezone,
    currency: body.currency,
    group_by: null,
    series: [{ key: null, periods }],
    series_truncated: false,
    span: current && { ...current, end: Math.min(current.end, instant) },
    compared: compared && { span: compared, amounts },
    asOf: instant,
  };
}

const tooManyPeriods = () => new ApiProblem(texts.problems.interval, 422, 'interval');
