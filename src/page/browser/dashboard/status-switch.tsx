import { defaultStatus } from '../view/view-state.ts';
import { useDashboard } from './dashboard-state.ts';

/** Counts paid purchases alone, or those of every payment status. A filter may select others. */
export function StatusSwitch() {
  const { state, change } = useDashboard();
  const { status, ...others } = state.filters;
  const choices = [
    {
      id: 'only-paid',
      label: 'Paid',
      isChosen: status === defaultStatus,
      filters: { status: defaultStatus, ...others },
    },
    { id: 'all-statuses', label: 'All statuses', isChosen: status === undefined, filters: others },
  ];
  return (
    <fieldset class="segmented">
      <legend class="visually-hidden">Payment status</legend>
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
