import { useEffect } from 'preact/hooks';
import { Banner } from '../components/failures.tsx';
import { narrow, useMedia } from '../components/media.ts';
import { formatDays, formatSpan } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { BestCustomersPanel } from '../statistics/best-customers.tsx';
import { CohortPanel } from '../statistics/cohorts.tsx';
import { CustomerTypesPanel } from '../statistics/customer-types.tsx';
import { Freshness } from '../statistics/freshness.tsx';
import { RankingPanel } from '../statistics/ranking.tsx';
import { SalesPanel } from '../statistics/sales-steps.tsx';
import { SeriesPanel } from '../statistics/series-panel.tsx';
import { TotalsCards } from '../statistics/totals.tsx';
import { browserTimeZone, zoneName } from '../view/calendar.ts';
import { daysOf, spanOf } from '../view/period.ts';
import { ComparisonChoice } from './comparison-choice.tsx';
import { Controls } from './controls-region.tsx';
import { DashboardContext, useDashboard, useDashboardState } from './dashboard-state.ts';
import { DownloadPanel } from './downloads.tsx';
import { PurchasesPanel } from './purchases-panel.tsx';

/** Totals, chart, ranking, customers and purchases of a period. */
export function Dashboard({ organization }: { readonly organization: string }) {
  const dashboard = useDashboardState(organization);
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
      </div>
      <Banner problems={dashboard.problems} onRetry={dashboard.retry} />
      <MixedCurrencies />
      <div id="results" aria-busy={dashboard.isBusy}>
        <TotalsCards />
        <SeriesPanel />
        <SalesPanel />
        <div class="columns">
          <div class="column">
            <RankingPanel />
            <CustomerTypesPanel />
          </div>
          <PurchasesPanel />
        </div>
        <CohortPanel />
        <div class="columns">
          <BestCustomersPanel />
          <DownloadPanel />
        </div>
      </div>
    </DashboardContext.Provider>
  );
}

/** The period, and what it is compared with. */
function Dates() {
  const { state, view, parts } = useDashboard();
  const isNarrow = useMedia(narrow);
  const days = daysOf(state, view.at);
  const report = parts.totals?.view === view ? parts.totals.value?.report : undefined;
  const span = spanOf(report?.compared_period ?? null, state.timezone);
  return (
    <div class="dates-shown" id="dates-shown">
      <p>
        {days === null ? texts.periods.all : formatDays(days)}
        {state.timezone !== browserTimeZone() && <small> {zoneName(state.timezone)}</small>}
      </p>
      {!isNarrow && <ComparisonChoice />}
      {span && <small class="compared">{formatSpan(span, state.timezone)}</small>}
    </div>
  );
}

/** Says that amounts of several currencies must not be added up. */
function MixedCurrencies() {
  const { state, parts, change } = useDashboard();
  const isMixed = parts.totals?.value?.report.mixed_currencies ?? false;
  if (!isMixed || state.group_by === 'currency') return null;
  return (
    <div class="notice" id="mixed-currencies" data-focus-next="#ranking-title">
      <p>
        <strong>{texts.currencies.several}</strong> {texts.currencies.hint}
      </p>
      <button type="button" onClick={() => change({ group_by: 'currency', then_by: 'none' })}>
        {texts.currencies.rank}
      </button>
    </div>
  );
}
