import { createContext } from 'preact';
import { useContext, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ApiProblem } from '../api/problem.ts';
import { daysOfData } from '../api/series.ts';
import { announce } from '../components/announce.ts';
import { formatCounted } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { isSelected, nextDimension } from '../view/filters.ts';
import { daysOf, defaultComparison, isPossible } from '../view/period.ts';
import { requestsOf } from '../view/requests.ts';
import { hashOf, readLink, type ViewState } from '../view/view-state.ts';
import { loadCheck, type Totals, type View } from './load.ts';
import { isEnded, type Part, partNames, useParts } from './parts.ts';

export type { Part } from './parts.ts';

export type DashboardState = ReturnType<typeof useDashboardState>;

export const DashboardContext = createContext<DashboardState | null>(null);

/** The state of the dashboard that contains the component. */
export const useDashboard = (): DashboardState => useContext(DashboardContext) as DashboardState;

const defaultPurchaseCount = 10;
/** Whether the page refreshes by itself, in the browser's `localStorage`. */
const automaticName = 'automatic-refresh';

type ViewOfPage = View & {
  /** What is wrong in the link. */
  readonly problems: readonly ApiProblem[];
};

const viewOf = (
  state: ViewState,
  { purchaseCount = defaultPurchaseCount, problems = [] }: Partial<ViewOfPage> = {},
): ViewOfPage => ({ state, at: Date.now(), purchaseCount, problems });

/** The state of the dashboard, which is in the URL, and the data that it loads. */
export function useDashboardState(organization: string) {
  const [view, setView] = useState(viewOfLink);
  /** Those of the last totals that had several, the most frequent first. */
  const [currencies, setCurrencies] = useState<readonly string[]>([]);
  const [isAutomatic, setAutomatic] = useState(localStorage.getItem(automaticName) !== null);
  const { state, at } = view;
  const { parts, load } = useParts(view, (totals) => {
    const several = currenciesOf(totals);
    if (several.length > 0) setCurrencies(several);
    const [currency] = several;
    if (currency === undefined || state.currencies === 'all') {
      announce(formatCounted(totals.report.totals.purchase_count, texts.totals.purchases));
      return true;
    }
    const next = { ...state, filters: { ...state.filters, currency: [currency] } };
    history.replaceState(history.state, '', hashOf(next));
    setView({ ...view, state: next });
    return false;
  });
  const rows = parts.purchases?.value?.page.data.length ?? 0;
  const isBusy = !partNames.every((name) => isEnded(parts[name], view));
  useEffect(() => {
    if (!isBusy && parts.totals?.value) void load('check', () => loadCheck(view));
  }, [isBusy, view]);
  const purchaseCount = isBusy ? view.purchaseCount : Math.max(view.purchaseCount, rows);
  const refresh = () =>
    setView(viewOf(state, { purchaseCount: Math.max(defaultPurchaseCount, rows) }));
  useHistory(purchaseCount, isBusy, () => setView(viewOfLink()));
  const totals = partOf(parts.totals, view);
  const series = partOf(parts.series, view);
  const failed = partNames.flatMap((name) => (parts[name]?.problem ? [parts[name]] : []));
  return {
    ...{ organization, state, parts, view, currencies, refresh },
    /** What is wrong in the link, and why parts failed. */
    problems: [...view.problems, ...failed.flatMap(({ problem }) => problem ?? [])],
    /** Repeats the requests that failed. All others depend on the totals. */
    retry: () => {
      if (parts.totals?.problem) refresh();
      else for (const part of failed) part.retry();
    },
    isAutomatic,
    refreshByItself: (isWanted: boolean) => {
      setAutomatic(isWanted);
      if (isWanted) localStorage.setItem(automaticName, 'on');
      else localStorage.removeItem(automaticName);
    },
    /** Whether parts of the view have not arrived. */
    isBusy,
    /** The currency of amounts in the controls. */
    currency: parts.totals?.value?.currency ?? null,
    requests: requestsOf(state, {
      ...{ at, purchaseCount, interval: series?.interval },
      hasSeveralCurrencies: totals?.report.mixed_currencies ?? false,
    }),
    /** The days of the period; of all time those with data, if they are known. */
    days: daysOf(state, at) ?? (series && daysOfData(series, at)),
    change: (patch: Partial<ViewState>) => {
      const next = changed(state, patch);
      history.pushState(null, '', hashOf(next));
      setView(viewOf(next));
    },
    showMorePurchases: async () => {
      const pages = parts.purchases?.value;
      if (pages) await load('purchases', pages.next);
    },
  };
}

/** The view of the URL, with the rows that a user who comes back has left. */
function viewOfLink(): ViewOfPage {
  const left = history.state as Left | null;
  const { state, problems } = readLink(location.hash);
  history.replaceState(left, '', hashOf(state));
  return viewOf(state, { ...left, problems });
}

/** The value of a part, if it belongs to the view. */
const partOf = <Value>(part: Part<Value> | undefined, view: View): Value | null =>
  part?.view === view ? part.value : null;

/** The currencies of the totals, the most frequent first. Empty unless there are several. */
function currenciesOf({ currencies }: Totals): readonly string[] {
  const rows = currencies?.rows ?? [];
  const known = rows.flatMap(({ currency }) => (currency === null ? [] : [String(currency)]));
  return known.length > 1 ? known : [];
}

/** Keeps choices that are possible after a change. */
function changed(state: ViewState, patch: Partial<ViewState>): ViewState {
  // What a user chooses leads back to nothing.
  const drilled = patch.group_by === undefined ? state.drilled : [];
  const next = ranked(
    state,
    returned({ ...state, drilled, ...patch, ...currenciesFor(state, patch) }),
  );
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

/** Without a filter that has led the ranking on, it goes back to the dimension of this filter. */
function returned(state: ViewState): ViewState {
  const { filters, drilled } = state;
  const last = drilled.findLastIndex((name) => isSelected(filters, name));
  const { [last + 1]: group_by } = drilled;
  const left = { ...state, drilled: drilled.filter((name) => isSelected(filters, name)) };
  return group_by === undefined ? left : { ...left, group_by, group_limit: '10' };
}

/** A new filter by a dimension of the ranking selects the next dimension. */
function ranked(before: ViewState, next: ViewState): ViewState {
  const { filters, group_by, then_by } = next;
  const isNew = (name: string) => isSelected(filters, name) && !isSelected(before.filters, name);
  const other = then_by === group_by || isNew(then_by) ? 'none' : then_by;
  if (!isNew(group_by)) return { ...next, then_by: other };
  // The second dimension, if it is not selected as well, takes the place of the first one.
  const first = other === 'none' ? nextDimension(group_by, filters) : other;
  const drilled = [...next.drilled, group_by];
  return { ...next, drilled, group_by: first, then_by: 'none', group_limit: '10' };
}

/** What the history keeps of a page that its user leaves. */
type Left = { readonly purchaseCount: number; readonly scrollY: number };

/** Keeps the number of rows and the place for a user who comes back. */
function useHistory(purchaseCount: number, isBusy: boolean, onNavigation: () => void): void {
  const left = useRef(history.state as Left | null);
  useLayoutEffect(() => {
    if (isBusy || left.current === null) return;
    scrollTo(0, left.current.scrollY);
    left.current = null;
  }, [isBusy]);
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
