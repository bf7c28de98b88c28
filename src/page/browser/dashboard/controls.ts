import { pathOf } from '../api/api.ts';
import { dimensionLabel, dimensions } from '../display/dimensions.ts';
import { byId, option } from '../display/elements.ts';
import { boundsOf, type Days, daysOf, isPossible } from '../view/period.ts';
import { intervals, type ViewState } from '../view/view-state.ts';
import { connectFilters } from './filter-controls.ts';
import { connectPeriod } from './period-controls.ts';

/** All controls of the dashboard. Returns a function that shows the state, and the days with data, in them. */
export function connectControls(
  read: () => ViewState,
  change: (patch: Partial<ViewState>) => void,
): (state: ViewState, shown: Days | null) => void {
  const showPeriod = connectPeriod(read, change);
  const showFilters = connectFilters(
    () => read().filters,
    (filters) => change({ filters }),
    suggestionsPath,
  );
  const dimension = connectSelect('dimension', dimensions, (group_by) =>
    change({ group_by, group_limit: '10' }),
  );
  const interval = connectSelect('interval', Object.entries(intervals), (interval) =>
    change({ interval }),
  );
  const split = byId<HTMLInputElement>('split');
  split.addEventListener('change', () => change({ split: split.checked ? 'groups' : 'none' }));
  return (state, shown) => {
    showPeriod(state, shown);
    showFilters(state.filters);
    dimension.value = state.group_by;
    for (const option of interval.options) option.disabled = !isPossible(option.value, shown);
    interval.value = state.interval;
    // A chart of days has no line for each day.
    split.disabled = state.group_by === 'day';
    split.checked = state.split === 'groups' && !split.disabled;
    byId('split-name').textContent = dimensionLabel(state.group_by);
  };

  /** The most frequent values of a label in the period, whatever the filters are. */
  function suggestionsPath(group_by: string): string {
    const bounds = boundsOf(daysOf(read()), read().timezone);
    return pathOf('/purchases/stats', { group_by, group_limit: '50', ...bounds });
  }
}

function connectSelect(
  id: string,
  options: readonly (readonly [string, string])[],
  onChange: (value: string) => void,
): HTMLSelectElement {
  const select = byId<HTMLSelectElement>(id);
  select.append(...options.map(([value, label]) => option(value, label)));
  select.addEventListener('change', () => onChange(select.value));
  return select;
}
