import { createContext } from 'preact';
import { useContext, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { problemOf } from '../api/api.ts';
import type { PurchasePages } from '../api/purchases.ts';
import type { TimeSeries } from '../api/responses.ts';
import { announce } from '../components/announce.ts';
import type { Failure } from '../components/failures.tsx';
import { formatCount } from '../display/format.ts';
import { dayAt } from '../view/calendar.ts';
import { nextDimension } from '../view/filters.ts';
import { type Days, daysOf, isPossible } from '../view/period.ts';
import { requestsOf } from '../view/requests.ts';
import { hashOf, readState, type ViewState } from '../view/view-state.ts';
import { type DashboardData, loadDashboard, type View } from './load.ts';

/** Data, and the view that requested them. */
export type Loaded = { readonly view: View; readonly data: DashboardData };

export type DashboardState = ReturnType<typeof useDashboardState>;

export const DashboardContext = createContext<DashboardState | null>(null);

/** The state of the dashboard that contains the component. */
export const useDashboard = (): DashboardState => useContext(DashboardContext) as DashboardState;

const defaultPurchaseCount = 10;
const refreshMs = 60_000;

const viewOf = (state: ViewState, purchaseCount = defaultPurchaseCount): View => ({
  state,
  at: Date.now(),
  purchaseCount,
});

type Result = { readonly view: View; readonly shown: Loaded | null; readonly isStale: boolean };

/** The state of the dashboard, which is in the URL, and the data that it loads. */
export function useDashboardState(organization: string) {
  const [left] = useState(readLeft);
  const [view, setView] = useState(() => viewOf(readState(), left?.purchaseCount));
  const [result, setResult] = useState<Result | null>(null);
  const [failures, setFailures] = useState<readonly Failure[]>([]);
  const { state, at } = view;
  const shown = result?.shown ?? null;
  const isBusy = result?.view !== view;
  const rows = shown?.data.purchases?.page.data.length ?? 0;
  const purchaseCount = isBusy ? view.purchaseCount : Math.max(view.purchaseCount, rows);
  const refresh = () => setView(viewOf(state, Math.max(defaultPurchaseCount, rows)));
  useLayoutEffect(() => {
    const loading = new AbortController();
    void loadDashboard(view, loading.signal).then((data) => {
      if (loading.signal.aborted) return;
      setResult((before) => resultOf(view, data, before?.shown ?? null));
      setFailures(data.problems.map((problem) => ({ problem })));
      const count = data.ranking?.body.purchase_count;
      if (count !== undefined) announce(`${formatCount(count)} purchases`);
    });
    return () => loading.abort();
  }, [view]);
  useLayoutEffect(() => {
    if (result !== null && left !== null) scrollTo(0, left.scrollY);
  }, [result === null]);
  useHistory(purchaseCount, () => setView(viewOf(readState())));
  useRegularRefresh(isBusy, refresh);
  const current = isBusy ? null : (shown?.data ?? null);
  const hasSeveralCurrencies = current?.hasSeveralCurrencies ?? false;
  return {
    ...{ organization, state, failures, refresh },
    /** When the data of the state are requested. */
    at,
    /** What the page shows: while `isBusy`, data of an earlier state. Null before the first data. */
    shown,
    isBusy,
    /** Whether the last refresh failed, so that older data are shown. */
    isStale: result?.isStale ?? false,
    requests: requestsOf(state, { at, purchaseCount, hasSeveralCurrencies }),
    /** The days of the period; of all time those with data, if they are known. */
    days: daysOf(state, at) ?? daysOfData(current?.series?.current, at),
    change: (patch: Partial<ViewState>) => {
      const next = changed(state, patch);
      history.pushState(null, '', hashOf(next));
      setView(viewOf(next));
    },
    showPurchases: (purchases: PurchasePages) =>
      setResult((before) => before && withPurchases(before, purchases)),
    /** Shows why an action failed. Without `retry`, the user can refresh. */
    fail: (error: unknown, retry?: () => void) =>
      setFailures([...failures, { problem: problemOf(error), retry }]),
  };
}

/** If the totals of the same state fail to load, the earlier data are better than none. */
function resultOf(view: View, data: DashboardData, before: Loaded | null): Result {
  const isStale =
    data.ranking === null && before !== null && hashOf(before.view.state) === hashOf(view.state);
  return { view, shown: isStale ? before : { view, data }, isStale };
}

const withPurchases = (result: Result, purchases: PurchasePages): Result => ({
  ...result,
  shown: result.shown && { ...result.shown, data: { ...result.shown.data, purchases } },
});

/** From the first purchase to the present day. */
function daysOfData(series: TimeSeries | undefined, now: number): Days | null {
  const first = series?.series[0]?.periods[0];
  if (series === undefined || first === undefined) return null;
  const { timezone } = series;
  return { from: dayAt(Date.parse(first.starts_at), timezone), to: dayAt(now, timezone) };
}

/** A new filter by the dimension that is ranked selects the next dimension. */
function changed(state: ViewState, patch: Partial<ViewState>): ViewState {
  const next = { ...state, ...patch };
  const interval = isPossible(next.interval, daysOf(next)) ? next.interval : 'auto';
  const isSingle = patch.filters?.[next.group_by] !== undefined;
  if (!isSingle || state.filters[next.group_by] !== undefined) return { ...next, interval };
  const group_by = nextDimension(next.group_by, next.filters);
  return { ...next, interval, group_by, group_limit: '10' };
}

/** What the history keeps of a page that its user leaves. */
type Left = { readonly purchaseCount: number; readonly scrollY: number };

function readLeft(): Left | null {
  const left = history.state as Left | null;
  history.replaceState(left, '', hashOf(readState()));
  return left;
}

/** Keeps the number of rows and the place for a user who comes back. */
function useHistory(purchaseCount: number, onNavigation: () => void): void {
  useEffect(() => {
    const keep = () => history.replaceState({ purchaseCount, scrollY }, '');
    addEventListener('pagehide', keep);
    return () => removeEventListener('pagehide', keep);
  }, [purchaseCount]);
  useEffect(() => {
    // Back, forward, and a change of the hash by hand.
    addEventListener('popstate', onNavigation);
    return () => removeEventListener('popstate', onNavigation);
  }, []);
}

/** A refresh would take away what the user is about to use. */
const isInUse = (): boolean =>
  document.activeElement?.closest('#ranking, #purchases, #filter-form') != null;

/** Refreshes a visible page a minute after its last data. */
function useRegularRefresh(isBusy: boolean, refresh: () => void): void {
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible' && !isBusy && !isInUse()) refresh();
    }, refreshMs);
    return () => clearInterval(timer);
  });
}
