import type uPlot from 'uplot';
import { get, type Snapshot } from '../api/api.ts';
import { pathOf } from '../api/path.ts';
import { listPurchases, type PurchasePages } from '../api/purchases.ts';
import type {
  Cohorts,
  CouponReport,
  Page,
  Purchase,
  Report,
  SalesReport,
} from '../api/responses.ts';
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

export type Sales = { readonly byStatus: SalesReport; readonly paidByCoupon: CouponReport };

/** The parts of the dashboard, which arrive and fail by themselves. */
export type DashboardData = {
  readonly totals: Totals;
  readonly library: typeof uPlot;
  readonly series: Series;
  readonly ranking: Report;
  readonly sales: Sales;
  readonly customer_types: Report;
  readonly customers: Report;
  readonly cohorts: Cohorts;
  readonly purchases: PurchasePages;
  /** The totals again, after all parts: other ones mean that purchases have changed meanwhile. */
  readonly check: Report;
};
export type PartName = keyof DashboardData;

/** Requests a part. Null if a filter does not apply to it. */
export type Request<Name extends PartName> = () => Promise<DashboardData[Name] | null>;

/** Requests a part, and shows it or its failure. Null if it fails. */
type Load = <Name extends PartName>(
  name: Name,
  request: Request<Name>,
) => Promise<DashboardData[Name] | null>;

/** The totals come first: no other request delays them. */
export async function loadDashboard(
  view: View,
  signal: AbortSignal,
  load: Load,
  requestTotals: Request<'totals'>,
): Promise<void> {
  const read = async <Body>(path: string | null) =>
    path === null ? null : (await get<Body>(path, signal)).body;
  void load('library', loadChartLibrary);
  const totals = await load('totals', requestTotals);
  if (signal.aborted) return;
  const hasSeveralCurrencies = totals?.report.mixed_currencies === true;
  const requests = requestsOf(view.state, { ...view, hasSeveralCurrencies });
  void load('series', () => loadSeries({ ...view, hasSeveralCurrencies }, signal));
  void load('ranking', () => read<Report>(requests.ranking));
  void load('sales', async () => {
    const [byStatus, paidByCoupon] = await Promise.all([
      read<SalesReport>(requests.sales),
      read<CouponReport>(requests.coupons),
    ]);
    return byStatus && paidByCoupon && { byStatus, paidByCoupon };
  });
  void load('customer_types', () => read<Report>(requests.customer_types));
  void load('customers', () => read<Report>(requests.customers));
  void load('purchases', async () =>
    requests.purchases === null ? null : listPurchases(requests.purchases, signal),
  );
  void load('cohorts', () => read<Cohorts>(requests.cohorts));
}

/** Without rows of the compared time alone. */
const withPurchases = (report: Report): Report => ({
  ...report,
  rows: report.rows.filter(({ purchase_count: count }) => BigInt(count) > 0n),
});

export async function loadCheck(view: View): Promise<Report> {
  const { totals } = requestsOf(view.state, { ...view, hasSeveralCurrencies: false });
  return (await get<Report>(totals)).body;
}

export async function loadTotals(view: View, signal: AbortSignal): Promise<Totals> {
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
