import { Select } from '../components/controls.tsx';
import { texts } from '../language/language.ts';
import { type Comparison, comparisonNames } from '../view/period.ts';
import { useDashboard } from './dashboard-state.ts';

const options = comparisonNames.map((value) => ({ value, label: texts.comparison[value] }));

/** What the period is compared with: all time with nothing. */
export function ComparisonChoice() {
  const { state, change } = useDashboard();
  if (state.period === 'all') return null;
  return (
    <label class="inline" for="compare-to">
      <span>{texts.comparison.comparedWith}</span>
      <Select
        id="compare-to"
        value={state.compare_to}
        options={options}
        onSelect={(compare_to) => change({ compare_to: compare_to as Comparison })}
      />
    </label>
  );
}
