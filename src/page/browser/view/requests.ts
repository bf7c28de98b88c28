import { trackingLabels } from '../../../domain/purchase.ts';
import { pathOf } from '../api/api.ts';
import { boundsOf, daysBefore, daysOf, intervalFor } from './period.ts';
import type { ViewState } from './view-state.ts';

/** The API requests of a view, as paths. */
export type Requests = {
  readonly ranking: string;
  readonly series: string;
  /** Null for all time, which nothing precedes. */
  readonly previous: { readonly totals: string; readonly series: string } | null;
  readonly currencies: string;
  readonly currencySeries: string;
  /** Null with a tracking filter, which lists do not have. */
  readonly purchases: string | null;
  readonly parquet: string;
  readonly all: string;
};

const purchasesShown = 10;

export function requestsOf(state: ViewState): Requests {
  const { timezone, group_by, group_limit, filters } = state;
  const days = daysOf(state);
  const selection = { ...boundsOf(days, timezone), ...filters };
  const before = days === null ? null : boundsOf(daysBefore(days), timezone);
  const interval = state.interval === 'auto' ? intervalFor(days) : state.interval;
  const stats = (parameters: object) => pathOf('/purchases/stats', { ...parameters });
  const series = (parameters: object) =>
    pathOf('/purchases/timeseries', { interval, timezone, ...parameters });
  const file = (format: string) => pathOf('/purchases/export', { ...selection, format });
  return {
    ranking: stats({ group_by, group_limit, timezone, ...selection }),
    series: series(selection),
    previous:
      before === null
        ? null
        : {
            totals: stats({ ...selection, ...before }),
            series: series({ ...selection, ...before }),
          },
    currencies: stats({ group_by: 'currency', ...selection }),
    currencySeries: series({ group_by: 'currency', group_limit: '5', ...selection }),
    purchases: trackingLabels.some((label) => label in filters)
      ? null
      : pathOf('/purchases', { limit: String(purchasesShown), ...selection }),
    parquet: file('parquet'),
    all: file('csv_excel'),
  };
}
