import type uPlot from 'uplot';
import { type ApiProblem, get, problemOf, type Snapshot } from '../api/api.ts';
import { type BestCustomers, listBestCustomers } from '../api/customers.ts';
import { pathOf } from '../api/path.ts';
import { listPurchases, type PurchasePages } from '../api/purchases.ts';
import type { Cohorts, Page, Purchase, Report } from '../api/responses.ts';
import { loadSeries, type Series } from '../api/series.ts';
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

export type Totals = {
  readonly report: Report;
  readonly asOf: Snapshot<Report>['asOf'];
  /** By currency, if there are several: those with purchases in the period. */
  readonly currencies: Report | null;
  /** Whether the organization has no purchase at all. */
  readonly isUnused: boolean;
  /** The only currency of the matching purchases, or if none matches, that of the latest purchase. */
  readonly currency: string | null;
};

export type DashboardData = {
  readonly totals: Totals;
  readonly chartLibrary: typeof uPlot;
  readonly series: Series;
  readonly ranking: Report;
  readonly customerTypes: Report;
  readonly customers: BestCustomers;
  readonly cohorts: Cohorts;
  readonly purchases: PurchasePages;
};
export type PartName = keyof DashboardData;

/** Shows a part of the dashboard. A part that failed is null. */
type Show = <Name extends PartName>(name: Name, value: DashboardData[Name] | null) => void;

/** Shows each part when it arrives. The totals come first: no other request delays them. */
export async function loadDashboard(
  view: View,
  signal: AbortSignal,
  show: Show,
): Promise<readonly ApiProblem[]> {
  const problems: ApiProblem[] = [];
  const load = async <Name extends PartName>(name: Name, loading: Promise<DashboardData[Name]>) => {
    const value = await loading.catch((error: unknown) => {
      if (!signal.aborted) problems.push(problemOf(error));
      return null;
    });
    if (!signal.aborted) show(name, value);
    return value;
  };
  const read = async <Body>(path: string) => (await get<Body>(path, signal)).body;
  const library = load('chartLibrary', loadChartLibrary());
  const totals = await load('totals', loadTotals(view, signal));
  if (signal.aborted) return problems;
  const hasSeveralCurrencies = totals?.report.mixed_currencies === true;
  const requests = requestsOf(view.state, { ...view, hasSeveralCurrencies });
  await Promise.all([
    library,
    load('series', loadSeries(requests.series, view, signal)),
    load('ranking', read<Report>(requests.ranking)),
    load('customerTypes', read<Report>(requests.customer_types)),
    load('customers', listBestCustomers(requests.customers, signal)),
    load('purchases', listPurchases(requests.purchases, { withNames: true, signal })),
    load('cohorts', read<Cohorts>(requests.cohorts)),
  ]);
  return problems;
}

/** Without rows of the compared time alone. */
const withPurchases = (report: Report): Report => ({
  ...report,
  rows: report.rows.filter(({ purchase_count: count }) => BigInt(count) > 0n),
});

async function loadTotals(view: View, signal: AbortSignal): Promise<Totals> {
  const requests = requestsOf(view.state, { ...view, hasSeveralCurrencies: false });
  const { body: report, asOf } = await get<Report>(requests.totals, signal);
  const currencies = report.mixed_currencies
    ? withPurchases((await get<Report>(requests.currencies, signal)).body)
    : null;
  const latest =
    Number(report.totals.purchase_count) === 0
      ? (await get<Page<Purchase>>(pathOf('/purchases', { limit: '1' }), signal)).body.data
      : null;
  return {
    report,
    asOf,
    currencies,
    isUnused: latest?.length === 0,
    currency: report.currency ?? latest?.[0]?.currency ?? null,
  };
}
