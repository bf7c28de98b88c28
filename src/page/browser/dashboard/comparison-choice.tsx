import { Select } from '../components/controls.tsx';
import { type Comparison, comparisons } from '../view/period.ts';
import { useDashboard } from './dashboard-state.ts';

const options = Object.entries(comparisons).map(([value, label]) => ({ value, label }));

/** What the period is compared with. */
export function ComparisonChoice() {
  const { state, change } = useDashboard();
  return (
    <label class="inline" for="compare-to">
      <span>compared with</span>
      <Select
        id="compare-to"
        value={state.compare_to}
        options={options}
        onSelect={(compare_to) => change({ compare_to: compare_to as Comparison })}
      />
    </label>
  );
}
