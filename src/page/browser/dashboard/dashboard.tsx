import { useEffect } from 'preact/hooks';
import { Banner } from '../components/failures.tsx';
import { formatDays, formatSpan } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { Freshness } from '../statistics/freshness.tsx';
import { RankingPanel } from '../statistics/ranking.tsx';
import { SeriesPanel } from '../statistics/series-panel.tsx';
import { Totals } from '../statistics/totals.tsx';
import { daysOf, previousSpan } from '../view/period.ts';
import { Controls } from './controls-region.tsx';
import { DashboardContext, useDashboard, useDashboardState } from './dashboard-state.ts';
import { DownloadPanel } from './downloads.tsx';
import { PurchasesPanel } from './purchases-panel.tsx';

/** Totals, chart, ranking and purchases of a period. */
export function Dashboard({ organization }: { readonly organization: string }) {
  const dashboard = useDashboardState(organization);
  const { refresh } = dashboard;
  useEffect(() => {
    document.title = texts.page.title;
  }, []);
  return (
    <DashboardContext.Provider value={dashboard}>
      <h1 class="visually-hidden">{texts.page.title}</h1>
      <Controls />
      <div class="state-row">
        <Dates />
        <Freshness />
        <button type="button" class="quiet" onClick={refresh}>
          Refresh
        </button>
      </div>
      <Banner failures={dashboard.failures} onRetry={refresh} />
      <MixedCurrencies />
      <div id="results" aria-busy={dashboard.isBusy}>
        <Totals />
        <SeriesPanel />
        <div class="columns">
          <RankingPanel />
          <PurchasesPanel />
        </div>
      </div>
      <DownloadPanel />
    </DashboardContext.Provider>
  );
}

function Dates() {
  const { state, at } = useDashboard();
  const days = daysOf(state, at);
  const previous = previousSpan(state, at);
  return (
    <p class="dates-shown" id="dates-shown">
      {days === null ? 'All time' : formatDays(days)}
      {previous !== null && <small> compared with {formatSpan(previous, state.timezone)}</small>}
    </p>
  );
}

/** Says that amounts of several currencies must not be added up. */
function MixedCurrencies() {
  const { shown, change } = useDashboard();
  const isMixed = shown?.data.hasSeveralCurrencies ?? false;
  if (!isMixed || shown?.view.state.group_by === 'currency') return null;
  return (
    <div class="notice" id="mixed-currencies" data-focus-next="#ranking-title">
      <p>
        <strong>Several currencies. </strong>
        Amounts in the ranking add up different currencies. Rank by currency, or filter.
      </p>
      <button type="button" onClick={() => change({ group_by: 'currency' })}>
        Rank by currency
      </button>
    </div>
  );
}
