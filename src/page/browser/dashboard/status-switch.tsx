import { texts } from '../language/language.ts';
import { hasFilter, withoutFilter, withValues } from '../view/filters.ts';
import { defaultStatus, isOnlyPaid } from '../view/view-state.ts';
import { useDashboard } from './dashboard-state.ts';

/** Counts paid purchases alone, or those of every payment status. A filter may select others. */
export function StatusSwitch() {
  const { state, change } = useDashboard();
  const choices = [
    {
      id: 'only-paid',
      label: texts.statusSwitch.paid,
      isChosen: isOnlyPaid(state.filters),
      filters: withValues(state.filters, 'status', [defaultStatus]),
    },
    {
      id: 'all-statuses',
      label: texts.statusSwitch.all,
      isChosen: !hasFilter(state.filters, 'status'),
      filters: withoutFilter(state.filters, 'status'),
    },
  ];
  return (
    <fieldset class="segmented">
      <legend class="visually-hidden">{texts.dimensions.status}</legend>
      {choices.map(({ id, label, isChosen, filters }) => (
        <label key={id}>
          <input
            id={id}
            type="radio"
            name="payment-status"
            checked={isChosen}
            onChange={() => change({ filters })}
          />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}
