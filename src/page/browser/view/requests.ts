import { pageLimits } from '../../../domain/purchase-query.ts';
import { pathOf } from '../api/api.ts';
import { boundsOf, daysOf, intervalFor, previousSpan } from './period.ts';
import { isMoney, type ViewState } from './view-state.ts';

/** The API requests of a view, as paths. Downloads and lines for `curl` have the same paths. */
export type Requests = {
  readonly ranking: string;
  /** One series for each currency if the chart shows amounts of several. */
  readonly series: string;
  /** Null for all time, which nothing precedes. */
  readonly previous: { readonly totals: string; readonly series: string } | null;
  readonly currencies: string;
  readonly purchases: string;
  readonly parquet: string;
  readonly all: string;
};

/** Inputs of the requests in addition to the view state. */
export type RequestContext = {
  /** When the data are requested: a period such as 30 days ends then. */
  readonly at: number;
  readonly hasSeveralCurrencies: boolean;
  readonly purchaseCount: number;
};

/** By what the chart is split; null for one line. Amounts of several currencies stay apart. */
function chartDimension(
  { measure, split, group_by }: ViewState,
  hasSeveralCurrencies: boolean,
): string | null {
  if (hasSeveralCurrencies && isMoney(measure)) return 'currency';
  return split === 'groups' && group_by !== 'day' ? group_by : null;
}

export function requestsOf(state: ViewState, context: RequestContext): Requests {
  const { timezone, group_by, group_limit, filters } = state;
  const days = daysOf(state, context.at);
  const selection = { ...boundsOf(days, timezone), ...filters };
  const previous = previousSpan(state, context.at);
  const before = previous && boundsOf(previous.days, timezone, previous.end);
  const interval = state.interval === 'auto' ? intervalFor(days) : state.interval;
  const stats = (parameters: object) => pathOf('/purchases/stats', { ...parameters });
  const series = (parameters: object) =>
    pathOf('/purchases/timeseries', { interval, timezone, ...parameters });
  const dimension = chartDimension(state, context.hasSeveralCurrencies);
  const file = (parameters: object) => pathOf('/purchases/export', { ...selection, ...parameters });
  return {
    ranking: stats({ group_by, group_limit, timezone, ...selection }),
    series: series({
      ...(dimension === null ? {} : { group_by: dimension, group_limit: '5' }),
      ...selection,
    }),
    previous:
      before === null
        ? null
        : {
            totals: stats({ group_by, group_limit: '50', timezone, ...selection, ...before }),
            series: series({ ...selection, ...before }),
          },
    currencies: stats({ group_by: 'currency', ...selection }),
    purchases: pathOf('/purchases', {
      limit: String(Math.min(context.purchaseCount, pageLimits.max)),
      ...selection,
    }),
    parquet: file({ format: 'parquet' }),
    all: file({ format: 'csv_excel', amounts: 'units' }),
  };
}

/** The most frequent values of a label in the period, whatever the filters are. */
export const suggestionsPath = (state: ViewState, group_by: string): string =>
  pathOf('/purchases/stats', {
    group_by,
    group_limit: '50',
    ...boundsOf(daysOf(state), state.timezone),
  });
