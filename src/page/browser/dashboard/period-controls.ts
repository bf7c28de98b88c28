import { byId, element, option } from '../display/elements.ts';
import { browserTimeZone, isDay } from '../view/calendar.ts';
import { type Days, daysOf, type PeriodName, periods } from '../view/period.ts';
import type { ViewState } from '../view/view-state.ts';

type Change = (patch: Partial<ViewState>) => void;

/** The choice of period and time zone. Returns a function that shows the state. */
export function connectPeriod(
  read: () => ViewState,
  change: Change,
): (state: ViewState, shown: Days | null) => void {
  let lastShown: Days | null = null;
  const fieldset = byId('periods');
  const choices = Object.entries(periods).map(([name, label]) => {
    const input = element('input', { type: 'radio', name: 'period', value: name });
    fieldset.append(element('label', {}, input, element('span', {}, label)));
    input.addEventListener('change', () => change(choose(read(), name as PeriodName, lastShown)));
    return input;
  });
  const [from, to] = [byId<HTMLInputElement>('from'), byId<HTMLInputElement>('to')];
  const problem = byId('period-problem');
  for (const input of [from, to]) {
    input.addEventListener('change', () => {
      // An unfinished date has an empty value.
      if (!isDay(from.value) || !isDay(to.value)) return;
      const isReversed = to.value < from.value;
      problem.hidden = !isReversed;
      problem.textContent = 'The period must not end before it begins.';
      for (const one of [from, to]) one.ariaInvalid = String(isReversed);
      if (!isReversed) change({ from: from.value, to: to.value });
    });
  }
  const zone = byId<HTMLSelectElement>('time-zone');
  const zones = new Set(['UTC', browserTimeZone(), ...Intl.supportedValuesOf('timeZone')]);
  zone.append(...[...zones].map((name) => option(name, name.replaceAll('_', ' '))));
  zone.addEventListener('change', () => change({ timezone: zone.value }));
  const settings = byId<HTMLDetailsElement>('settings');
  settings.addEventListener('focusout', ({ relatedTarget }) => {
    if (!settings.contains(relatedTarget as Node | null)) settings.open = false;
  });
  return (state, shown) => {
    lastShown = shown;
    for (const choice of choices) choice.checked = choice.value === state.period;
    byId('custom-dates').hidden = state.period !== 'custom';
    const days = daysOf(state);
    from.value = days?.from ?? '';
    to.value = days?.to ?? '';
    for (const one of [from, to]) one.ariaInvalid = 'false';
    if (!zones.has(state.timezone)) zone.prepend(option(state.timezone));
    zone.value = state.timezone;
  };
}

/** The custom period begins with the days that were shown before. */
function choose(state: ViewState, period: PeriodName, shown: Days | null): Partial<ViewState> {
  return period === 'custom' ? { period, ...(daysOf(state) ?? shown ?? {}) } : { period };
}
