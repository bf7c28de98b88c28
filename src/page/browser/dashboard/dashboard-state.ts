import { createContext } from 'preact';
import { useContext, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { problemOf } from '../api/api.ts';
import type { PurchasePages } from '../api/purchases.ts';
import type { Series } from '../api/series.ts';
import { announce } from '../components/announce.ts';
import type { Failure } from '../components/failures.tsx';
import { formatCounted } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { dayAt } from '../view/calendar.ts';
import { isSelected, nextDimension } from '../view/filters.ts';
import { type Days, daysOf, defaultComparison, isPossible } from '../view/period.ts';
import { requestsOf } from '../view/requests.ts';
import { hashOf, readState, type ViewState } from '../view/view-state.ts';
import {
  type DashboardData,
  loadDashboard,
  type PartName,
  type Totals,
  type View,
} from './load.ts';

/** What the page shows of a part. The value is null if it failed to load. */
export type Part<Value> = {
  /** The view that requested it: an earlier one until the part of the present view arrives. */
  readonly view: View;
  readonly value: Value | null;
};

type Parts = { readonly [Name in PartName]?: Part<DashboardData[Name]> };

export type DashboardState = ReturnType<typeof useDashboardState>;

export const DashboardContext = createContext<DashboardState | null>(null);

/** The state of the dashboard that contains the component. */
export const useDashboard = (): DashboardState => useContext(DashboardContext) as DashboardState;

const defaultPurchaseCount = 10;

const viewOf = (state: ViewState, purchaseCount = defaultPurchaseCount): View => ({
  state,
  at: Date.now(),
  purchaseCount,
});

/** The state of the dashboard, which is in the URL, and the data that it loads. */
export function useDashboardState(organization: string) {
  const [left] = useState(readLeft);
  const [view, setView] = useState(() => viewOf(readState(location.hash), left?.purchaseCount));
  const [parts, setParts] = useState<Parts>({});
  /** The last view of which all parts arrived or failed. */
  const [loaded, setLoaded] = useState<View | null>(null);
  const [failures, setFailures] = useState<readonly Failure[]>([]);
  /** Those of the last totals that had several, the most frequent first. */
  const [currencies, setCurrencies] = useState<readonly string[]>([]);
  const { state, at } = view;
  const isBusy = loaded !== view;
  const rows = parts.purchases?.value?.page.data.length ?? 0;
  const purchaseCount = isBusy ? view.purchaseCount : Math.max(view.purchaseCount, rows);
  useLayoutEffect(() => {
    const loading = new AbortController();
    const { signal } = loading;
    const show = <Name extends PartName>(name: Name, value: DashboardData[Name] | null) => {
      const several = name === 'totals' ? currenciesOf(value as Totals | null) : [];
      if (several.length > 0) setCurrencies(several);
      const [currency] = several;
      if (currency !== undefined && state.currencies === 'one') {
        loading.abort();
        const next = { ...state, filters: { ...state.filters, currency } };
        history.replaceState(history.state, '', hashOf(next));
        setView(viewOf(next, view.purchaseCount));
        return;
      }
      setParts((before) => withPart(before, name, { view, value }));
      if (name === 'totals' && value !== null) announce(announcementOf(value as Totals));
    };
    void loadDashboard(view, signal, show).then((problems) => {
      if (signal.aborted) return;
      setLoaded(view);
      setFailures(problems.map((problem) => ({ problem })));
    });
    return () => loading.abort();
  }, [view]);
  useLayoutEffect(() => {
    if (loaded !== null && left !== null) scrollTo(0, left.scrollY);
  }, [loaded === null]);
  useHistory(purchaseCount, () => setView(viewOf(readState(location.hash))));
  const totals = partOf(parts.totals, view);
  const hasSeveralCurrencies = totals?.report.mixed_currencies ?? false;
  return {
    ...{ organization, state, failures, parts, view, currencies },
    refresh: () => setView(viewOf(state, Math.max(defaultPurchaseCount, rows))),
    /** Whether parts of the view have not arrived. */
    isBusy,
    /** Whether the last refresh failed, so that older totals are shown. */
    isStale: !isBusy && parts.totals?.view !== view,
    /** The currency of amounts in the controls. */
    currency: parts.totals?.value?.currency ?? null,
    requests: requestsOf(state, { at, purchaseCount, hasSeveralCurrencies }),
    /** The days of the period; of all time those with data, if they are known. */
    days: daysOf(state, at) ?? daysOfData(partOf(parts.series, view), at),
    change: (patch: Partial<ViewState>) => {
      const next = changed(state, patch);
      history.pushState(null, '', hashOf(next));
      setView(viewOf(next));
    },
    showPurchases: (value: PurchasePages) =>
      setParts((before) => {
        const { purchases } = before;
        return purchases === undefined ? before : { ...before, purchases: { ...purchases, value } };
      }),
    /** Shows why an action failed. Without `retry`, the user can refresh. */
    fail: (error: unknown, retry?: () => void) =>
      setFailures([...failures, { problem: problemOf(error), retry }]),
  };
}

/** The value of a part, if it belongs to the view. */
const partOf = <Value>(part: Part<Value> | undefined, view: View): Value | null =>
  part?.view === view ? part.value : null;

/** The currencies of the totals, the most frequent first. Empty unless there are several. */
function currenciesOf(totals: Totals | null): readonly string[] {
  const rows = totals?.currencies?.rows ?? [];
  const known = rows.flatMap(({ currency }) => (currency === null ? [] : [String(currency)]));
  return known.length > 1 ? known : [];
}

const announcementOf = ({ report }: Totals): string =>
  formatCounted(report.totals.purchase_count, texts.totals.purchases);

/** If a part of the same state fails to load, the earlier data are better than none. */
function withPart<Name extends PartName>(
  parts: Parts,
  name: Name,
  part: Part<DashboardData[Name]>,
): Parts {
  const before = parts[name];
  const isSame = before !== undefined && hashOf(before.view.state) === hashOf(part.view.state);
  return part.value === null && isSame ? parts : { ...parts, [name]: part };
}

/** From the first purchase to the present day. */
function daysOfData(series: Series | null, now: number): Days | null {
  const first = series?.series[0]?.periods[0];
  if (series === null || first === undefined) return null;
  const { timezone } = series;
  return { from: dayAt(Date.parse(first.starts_at), timezone), to: dayAt(now, timezone) };
}

/** Keeps choices that are possible after a change. */
function changed(state: ViewState, patch: Partial<ViewState>): ViewState {
  const next = ranked(state, { ...state, ...patch, ...currenciesFor(state, patch) });
  const isDefault = state.compare_to === defaultComparison(state.period);
  const isOther = patch.period !== undefined && patch.compare_to === undefined && isDefault;
  const compare_to = isOther ? defaultComparison(next.period) : next.compare_to;
  return {
    ...next,
    compare_to,
    interval: isPossible(next.interval, daysOf(next), compare_to) ? next.interval : 'auto',
  };
}

/** A ranking by currency needs all of them. */
function currenciesFor({ filters }: ViewState, patch: Partial<ViewState>): Partial<ViewState> {
  if (patch.group_by !== 'currency' && patch.then_by !== 'currency') return {};
  const { currency: _, ...others } = patch.filters ?? filters;
  return { currencies: 'all', filters: others };
}

/** A new filter by a dimension of the ranking selects the next dimension. */
function ranked(before: ViewState, next: ViewState): ViewState {
  const { filters, group_by, then_by } = next;
  const isNew = (name: string) => isSelected(filters, name) && !isSelected(before.filters, name);
  const other = then_by === group_by || isNew(then_by) ? 'none' : then_by;
  if (!isNew(group_by)) return { ...next, then_by: other };
  // The second dimension, if it is not selected as well, takes the place of the first one.
  const first = other === 'none' ? nextDimension(group_by, filters) : other;
  return { ...next, group_by: first, then_by: 'none', group_limit: '10' };
}

/** What the history keeps of a page that its user leaves. */
type Left = { readonly purchaseCount: number; readonly scrollY: number };

function readLeft(): Left | null {
  const left = history.state as Left | null;
  history.replaceState(left, '', hashOf(readState(location.hash)));
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
