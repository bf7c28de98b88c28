import type { TimeSeries } from '../api/responses.ts';
import { byId, element, showView } from '../display/elements.ts';
import { formatDays, formatSpan } from '../display/format.ts';
import { clearProblems, type ProblemHandling, showProblem } from '../display/problems.ts';
import { createChart } from '../statistics/chart.ts';
import { dayAt } from '../view/calendar.ts';
import { nextDimension } from '../view/filters.ts';
import { type Days, daysOf, isPossible, previousSpan } from '../view/period.ts';
import { initialContext, requestsOf, type ViewContext } from '../view/requests.ts';
import { hashOf, readState, type ViewState } from '../view/view-state.ts';
import { connectControls } from './controls.ts';
import { connectDownloads } from './downloads.ts';
import { type DashboardData, loadDashboard } from './load.ts';
import { renderRequests } from './request-lines.ts';
import { renderResults } from './results.ts';

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
  const days = daysOf(next);
  const interval = isPossible(next.interval, days) ? next.interval : 'auto';
  const isSingle = patch.filters?.[next.group_by] !== undefined;
  if (!isSingle || state.filters[next.group_by] !== undefined) return { ...next, interval };
  return {
    ...next,
    interval,
    group_by: nextDimension(next.group_by, next.filters),
    group_limit: '10',
  };
}

const refreshMs = 60_000;

/** Refreshes a visible page until another view replaces it. */
function refreshRegularly(results: HTMLElement, refresh: () => void): void {
  // A refresh would take away what the user is about to use.
  const isInUse = () =>
    results.ariaBusy === 'true' ||
    ['ranking', 'purchases', 'filter-form'].some((id) => byId(id).contains(document.activeElement));
  const timer = setInterval(() => {
    if (!results.isConnected) clearInterval(timer);
    else if (document.visibilityState === 'visible' && !isInUse()) refresh();
  }, refreshMs);
}

/** What the history keeps of a page that its user leaves. */
type Left = { readonly purchaseCount: number; readonly scrollY: number };

/** Returns what the user had left, and keeps what the user leaves next. */
function keepPlace(
  results: HTMLElement,
  state: ViewState,
  purchaseCount: () => number,
): Left | null {
  const left = history.state as Left | null;
  history.replaceState(left, '', hashOf(state));
  window.onpagehide = () => {
    if (!results.isConnected) return;
    history.replaceState({ purchaseCount: purchaseCount(), scrollY }, '');
  };
  return left;
}

function showDates(state: ViewState, at: number): void {
  const days = daysOf(state, at);
  const previous = previousSpan(state, at);
  byId('dates-shown').replaceChildren(
    days === null ? 'All time' : formatDays(days),
    ...(previous === null
      ? []
      : [element('small', {}, ` compared with ${formatSpan(previous, state.timezone)}`)]),
  );
}

/** Totals, chart, ranking and purchases of a period. */
export function openDashboard(onKeyRefused: ProblemHandling['onKeyRefused']): void {
  showView('dashboard-view');
  document.title = 'Purchases';
  const results = byId('results');
  const chart = createChart(byId('chart'));
  let state = readState();
  let context = initialContext();
  const requests = () => requestsOf(state, context);
  let loading = new AbortController();
  /** The view whose data are shown. */
  let shown: string | null = null;
  const refresh = () => void show(context.purchaseCount);
  const onProblem = (error: unknown) => showProblem(error, { onKeyRefused, retry: refresh });
  const showControls = connectControls(() => state, change);
  connectDownloads(requests, () => state.timezone, onKeyRefused);
  byId('refresh').addEventListener('click', refresh);
  refreshRegularly(results, refresh);
  const left = keepPlace(results, state, () => context.purchaseCount);
  // Back, forward, and a change of the hash by hand. Replaces the handler of an earlier view.
  window.onpopstate = () => {
    state = readState();
    if (results.isConnected) void show();
  };
  void show(left?.purchaseCount).then(() => {
    if (left !== null) scrollTo(0, left.scrollY);
  });

  function change(patch: Partial<ViewState>): void {
    state = changed(state, patch);
    history.pushState(null, '', hashOf(state));
    void show();
  }

  async function show(purchaseCount?: number): Promise<void> {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    context = initialContext(purchaseCount);
    const { at } = context;
    showControls(state, daysOf(state, at));
    showDates(state, at);
    renderRequests(requests());
    results.ariaBusy = 'true';
    const data = await loadDashboard(state, context, signal);
    if (signal.aborted || !results.isConnected) return;
    updateContext({ hasSeveralCurrencies: data.hasSeveralCurrencies });
    showControls(state, daysOf(state, at) ?? daysOfData(data.series?.current, at));
    clearProblems();
    for (const problem of data.problems) onProblem(problem);
    // The page may ask for another key now.
    if (results.isConnected) await showData(data, at);
    if (!signal.aborted) results.ariaBusy = 'false';
  }

  async function showData(data: DashboardData, at: number): Promise<void> {
    const view = hashOf(state);
    if (data.ranking === null && shown === view) {
      // The data of before are better than none.
      byId('freshness').classList.add('failed');
      return;
    }
    shown = view;
    const onMorePurchases = (purchaseCount: number) => updateContext({ purchaseCount });
    const actions = { change, onMorePurchases, onProblem };
    const dashboard = { data, state, at, chart, ...actions };
    await renderResults(dashboard).catch(onProblem);
  }

  function updateContext(patch: Partial<ViewContext>): void {
    context = { ...context, ...patch };
    renderRequests(requests());
  }
}
