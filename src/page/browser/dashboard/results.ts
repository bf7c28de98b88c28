import { pageLimits } from '../../../domain/purchase-query.ts';
import { announce, byId, element, moveFocus } from '../display/elements.ts';
import { formatCount, formatSpan } from '../display/format.ts';
import { renderPurchases } from '../display/purchase-list.ts';
import type { Chart } from '../statistics/chart.ts';
import { showFreshness } from '../statistics/freshness.ts';
import { showMixedCurrencies } from '../statistics/mixed-currencies.ts';
import { renderRanking } from '../statistics/ranking.ts';
import { renderSeries } from '../statistics/series-view.ts';
import { renderTotals } from '../statistics/totals.ts';
import { filterNamed } from '../view/filters.ts';
import { previousSpan } from '../view/period.ts';
import type { ViewState } from '../view/view-state.ts';
import { noMatch, noPurchases } from './empty.ts';
import type { DashboardData } from './load.ts';

type DashboardView = {
  readonly data: DashboardData;
  readonly state: ViewState;
  /** When the data were requested. */
  readonly at: number;
  readonly chart: Chart;
  change(patch: Partial<ViewState>): void;
  onMorePurchases(count: number): void;
  onProblem(error: unknown): void;
};

export async function renderResults(view: DashboardView): Promise<void> {
  renderStatistics(view);
  renderLatest(view);
  await renderChart(view);
}

function renderLatest({ data, state, ...view }: DashboardView): void {
  const container = byId('purchases');
  const { purchases: pages } = data;
  const download = byId('download-purchases');
  download.textContent = 'CSV';
  if (pages === null) showNotLoaded(container);
  else {
    const onMore = (count: number) => {
      if (count > pageLimits.max) download.textContent = `CSV of the latest ${pageLimits.max}`;
      view.onMorePurchases(count);
    };
    const { onProblem } = view;
    renderPurchases(container, { pages, timeZone: state.timezone, onMore, onProblem });
  }
}

function renderStatistics({ data, state, at, change }: DashboardView): void {
  const { ranking, previous, currencies } = data;
  if (ranking === null) {
    byId('totals').replaceChildren();
    showNotLoaded(byId('ranking'));
    return;
  }
  const stats = ranking.body;
  const { measure } = state;
  const span = previousSpan(state, at);
  renderTotals(byId('totals'), {
    current: stats,
    previous,
    previousName: span === null ? '' : formatSpan(span, state.timezone),
    statuses: state.filters.status ?? 'all statuses',
    currencies,
    measure,
    onMeasure: (measure) => change({ measure }),
  });
  showFreshness(ranking.asOf, state.timezone);
  showMixedCurrencies(stats.mixed_currencies, state.group_by, () =>
    change({ group_by: 'currency' }),
  );
  renderRanking(byId('ranking'), {
    stats,
    previous,
    measure,
    onSelect: selectionOf(state, change),
    onMore: () => change({ group_limit: '50' }),
  });
  announce(`${formatCount(stats.purchase_count)} purchases`);
}

/** Selecting a group adds its filter. A day becomes the period. */
function selectionOf(
  { group_by: dimension, filters }: ViewState,
  change: DashboardView['change'],
): ((key: string) => void) | null {
  if (dimension === 'day') return (day) => change({ period: 'custom', from: day, to: day });
  if (filterNamed(dimension) === undefined) return null;
  return (key) => change({ filters: { ...filters, [dimension]: key } });
}

async function renderChart({ data, state, at, chart, change }: DashboardView): Promise<void> {
  const container = byId('chart');
  const isEmpty = data.ranking !== null && Number(data.ranking.body.purchase_count) === 0;
  container.ariaHidden = String(data.series !== null && !isEmpty);
  // The button of an empty view is about to disappear.
  moveFocus(container, byId('chart-title'));
  if (data.series !== null && !isEmpty) {
    await renderSeries(chart, { state, at, ...data.series });
    return;
  }
  chart.clear();
  byId('chart-table').replaceChildren();
  byId('legend').replaceChildren();
  if (isEmpty) {
    container.replaceChildren(data.isUnused ? noPurchases() : noMatch(state, change));
  } else showNotLoaded(container);
}

const showNotLoaded = (container: HTMLElement): void =>
  container.replaceChildren(element('p', { className: 'empty' }, 'This part is not loaded.'));
