import type uPlot from 'uplot';
import { type ApiProblem, get, pathOf, problemOf, type Snapshot } from '../api/api.ts';
import { listPurchases, type PurchasePages } from '../api/purchases.ts';
import type { Page, Purchase, Stats, TimeSeries } from '../api/responses.ts';
import { loadChartLibrary } from '../statistics/chart-library.ts';
import { requestsOf } from '../view/requests.ts';
import type { ViewState } from '../view/view-state.ts';

/** What the dashboard requests. */
export type View = {
  readonly state: ViewState;
  /** When the data are requested. */
  readonly at: number;
  readonly purchaseCount: number;
};

/** The parts of the dashboard. A part that failed is null. */
export type DashboardData = {
  readonly ranking: Snapshot<Stats> | null;
  readonly previous: Stats | null;
  /** The groups by currency, if there are several. */
  readonly currencies: Stats | null;
  readonly series: { readonly current: TimeSeries; readonly previous: TimeSeries | null } | null;
  readonly chartLibrary: typeof uPlot | null;
  readonly purchases: PurchasePages | null;
  /** Whether the organization has no purchase at all. */
  readonly isUnused: boolean;
  readonly hasSeveralCurrencies: boolean;
  /** The only currency of the matching purchases, or if none matches, that of the latest purchase. */
  readonly currency: string | null;
  readonly problems: readonly ApiProblem[];
};

export async function loadDashboard(view: View, signal: AbortSignal): Promise<DashboardData> {
  const { state } = view;
  const requests = requestsOf(state, { ...view, hasSeveralCurrencies: false });
  const problems: ApiProblem[] = [];
  const fail = (error: unknown) => {
    if (!signal.aborted) problems.push(problemOf(error));
    return null;
  };
  const read = async <Body>(path: string | null | undefined): Promise<Snapshot<Body> | null> => {
    if (path == null) return null;
    return get<Body>(path, signal).catch(fail);
  };
  const [ranking, previous, single, before, purchases, chartLibrary] = await Promise.all([
    read<Stats>(requests.ranking),
    read<Stats>(requests.previous?.totals),
    read<TimeSeries>(requests.series),
    read<TimeSeries>(requests.previous?.series),
    listPurchases(requests.purchases, { withNames: true, signal }).catch(fail),
    loadChartLibrary().catch(fail),
  ]);
  const hasSeveralCurrencies = ranking?.body.mixed_currencies === true;
  const currencies = hasSeveralCurrencies ? await read<Stats>(requests.currencies) : null;
  const { series: path } = requestsOf(state, { ...view, hasSeveralCurrencies });
  const series = path === requests.series ? single : await read<TimeSeries>(path);
  const isEmpty = ranking !== null && Number(ranking.body.purchase_count) === 0;
  const any = isEmpty ? await read<Page<Purchase>>(pathOf('/purchases', { limit: '1' })) : null;
  return {
    isUnused: any?.body.data.length === 0,
    ranking,
    previous: previous?.body ?? null,
    currencies: currencies?.body ?? null,
    series: series && { current: series.body, previous: before?.body ?? null },
    chartLibrary,
    purchases,
    hasSeveralCurrencies,
    currency: ranking?.body.currency ?? any?.body.data[0]?.currency ?? null,
    problems,
  };
}
