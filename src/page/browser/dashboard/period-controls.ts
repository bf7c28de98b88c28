import { byId, element, option } from '../display/elements.ts';
import { browserTimeZone, isDay } from '../view/calendar.ts';
import { daysOf, type PeriodName, periods } from '../view/period.ts';
import type { ViewState } from '../view/view-state.ts';

type Change = (patch: Partial<ViewState>) => void;

/** The choice of period and time zone. Returns a function that shows the state. */
export function connectPeriod(read: () => ViewState, change: Change): (state: ViewState) => void {
  const fieldset = byId('periods');
  const choices = Object.entries(periods).map(([name, label]) => {
    const input = element('input', { type: 'radio', name: 'period', value: name });
    fieldset.append(element('label', {}, input, element('span', {}, label)));
    input.addEventListener('change', () => change(choose(read(), name as PeriodName)));
    return input;
  });
  const [from, to] = [byId<HTMLInputElement>('from'), byId<HTMLInputElement>('to')];
  for (const input of [from, to]) {
    input.addEventListener('change', () => {
      // An unfinished date has an empty value.
      if (isDay(from.value) && isDay(to.value)) change({ from: from.value, to: to.value });
    });
  }
  const zone = byId<HTMLSelectElement>('time-zone');
  const zones = new Set(['UTC', browserTimeZone(), ...Intl.supportedValuesOf('timeZone')]);
  zone.append(...[...zones].map((name) => option(name, name.replaceAll('_', ' '))));
  zone.addEventListener('change', () => change({ timezone: zone.value }));
  return (state) => {
    for (const choice of choices) choice.checked = choice.value === state.period;
    byId('custom-dates').hidden = state.period !== 'custom';
    const days = daysOf(state);
    from.value = days?.from ?? '';
    to.value = days?.to ?? '';
    to.min = from.value;
    if (!zones.has(state.timezone)) zone.prepend(option(state.timezone));
    zone.value = state.timezone;
  };
}

/** The custom period begins with the days that were shown before. */
function choose(state: ViewState, period: PeriodName): Partial<ViewState> {
  return period === 'custom' ? { period, ...(daysOf(state) ?? {}) } : { period };
}
