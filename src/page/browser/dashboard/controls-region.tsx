import { useState } from 'preact/hooks';
import { narrow, useMedia } from '../components/media.ts';
import { formatCounted } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { ComparisonChoice } from './comparison-choice.tsx';
import { CurrencyChoice } from './currency-choice.tsx';
import { useDashboard } from './dashboard-state.ts';
import { chipsOf, Filters } from './filter-controls.tsx';
import { CustomDates, Periods, Settings } from './period-controls.tsx';
import { StatusSwitch } from './status-switch.tsx';

/** Period, filters and settings. A narrow window has a button for all but the period. */
export function Controls() {
  const { state, currencies } = useDashboard();
  const isNarrow = useMedia(narrow);
  const [isOpen, setOpen] = useState(false);
  const isOneCurrency = currencies.length > 0 && state.filters.currency !== undefined;
  const count = chipsOf(state.filters, currencies).length + (isOneCurrency ? 1 : 0);
  return (
    <section class="controls" aria-label={texts.controls.region}>
      <Periods />
      {isNarrow && (
        <button
          type="button"
          id="more-controls"
          aria-expanded={isOpen}
          aria-controls="filters-and-settings"
          onClick={() => setOpen(!isOpen)}
        >
          {texts.controls.filtersAndSettings}
          {count > 0 && (
            <>
              {' '}
              <span class="count" aria-hidden="true">
                {count}
              </span>
              <span class="visually-hidden">{formatCounted(count, texts.controls.active)}</span>
            </>
          )}
        </button>
      )}
      <CustomDates />
      <div class="filters-and-settings" id="filters-and-settings" hidden={isNarrow && !isOpen}>
        <StatusSwitch />
        <CurrencyChoice />
        <Filters />
        {isNarrow && <ComparisonChoice />}
        <Settings />
      </div>
    </section>
  );
}
