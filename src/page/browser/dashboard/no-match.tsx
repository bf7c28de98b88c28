import { texts } from '../language/language.ts';
import { useDashboard } from './dashboard-state.ts';

/** Instead of the chart, if no purchase matches. */
export function NoMatch() {
  const { state, change } = useDashboard();
  const { status, ...others } = state.filters;
  return (
    <div class="empty">
      <p>{texts.empty.noMatch}</p>
      {state.period !== 'all' && (
        <button type="button" onClick={() => change({ period: 'all' })}>
          {texts.empty.allTime}
        </button>
      )}
      {Object.keys(others).length > 0 && (
        <button type="button" onClick={() => change({ filters: status ? { status } : {} })}>
          {texts.empty.removeFilters}
        </button>
      )}
      {status !== undefined && (
        <button type="button" onClick={() => change({ filters: others })}>
          {texts.empty.allStatuses}
        </button>
      )}
    </div>
  );
}
