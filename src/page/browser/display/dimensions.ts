import { dayAt } from '../view/calendar.ts';
import { filterNamed, labelOfTracking } from '../view/filters.ts';
import { rankingDimensions } from '../view/view-state.ts';
import { formatDays, language } from './format.ts';

const labels: Readonly<Record<string, string>> = {
  currency: 'Currency',
  customer_type: 'New or returning',
  shipping_status: 'Shipping status',
  weekday: 'Weekday',
  hour_of_day: 'Hour of the day',
  day: 'Day',
};

/** The dimensions of a ranking, with their names. */
export const dimensions = rankingDimensions.map((name) => ({
  value: name,
  label: filterNamed(name)?.label ?? labels[name] ?? labelOfTracking(name),
}));

export const dimensionLabel = (name: string): string =>
  dimensions.find(({ value }) => value === name)?.label ?? name;

const weekdays = new Intl.DateTimeFormat(language, { weekday: 'long', timeZone: 'UTC' });

/** The text of a group. Purchases without a value form the group null. */
export function groupLabel(dimension: string, key: unknown, timeZone: string): string {
  if (key === null)
    return `No ${dimensionLabel(dimension).replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())}`;
  if (key === '') return 'Empty text';
  if (key === 'new' && dimension === 'customer_type') return 'New';
  if (key === 'returning' && dimension === 'customer_type') return 'Returning';
  // 2024-01-01 was a Monday.
  if (dimension === 'weekday') return weekdays.format(Date.UTC(2024, 0, Number(key)));
  if (dimension === 'hour_of_day') return `${key}:00`;
  if (dimension !== 'day') return String(key);
  const day = dayAt(Date.parse(String(key)), timeZone);
  return formatDays({ from: day, to: day });
}
