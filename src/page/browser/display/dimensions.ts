import { locale, texts } from '../language/language.ts';
import { dayAt } from '../view/calendar.ts';
import { rankingDimensions } from '../view/view-state.ts';
import { formatDays } from './format.ts';

const dimensionLabels: Readonly<Record<string, string>> = {
  ...texts.intervals,
  ...texts.dimensions,
};

export const dimensionLabel = (name: string): string => dimensionLabels[name] ?? name;

/** The dimensions of a ranking, with their names. */
export const dimensions = rankingDimensions.map((name) => ({
  value: name,
  label: dimensionLabel(name),
}));

const statuses: Readonly<Record<string, string>> = texts.statuses;

/** A text of the data. One that reads like a text of the page is in quotes. */
const dataLabel = (text: string, ofPage: readonly string[]): string =>
  ofPage.includes(text) ? `“${text}”` : text;

/** A status of a purchase, flow or campaign. Other systems may write any text. */
export const statusLabel = (status: string): string =>
  statuses[status] ?? dataLabel(status, Object.values(statuses));

/** The text of a value of a filter. */
export const valueLabel = (filter: string, value: string): string =>
  filter === 'without' ? dimensionLabel(value) : groupLabel(filter, value, 'UTC');

const weekdays = new Intl.DateTimeFormat(locale, { weekday: 'long', timeZone: 'UTC' });
const hours = new Intl.DateTimeFormat(locale, { timeStyle: 'short', timeZone: 'UTC' });

/** The text of a group. Purchases without a value form the group null. */
export function groupLabel(dimension: string, key: unknown, timeZone: string): string {
  const none = texts.groups.none(dimensionLabel(dimension));
  if (key === null) return none;
  if (key === '') return texts.groups.empty;
  switch (dimension) {
    case 'status':
    case 'shipping_status':
      return statusLabel(String(key));
    case 'customer_type':
      return key === 'new' ? texts.groups.newCustomers : texts.groups.returningCustomers;
    case 'weekday':
      // 2024-01-01 was a Monday.
      return weekdays.format(Date.UTC(2024, 0, Number(key)));
    case 'hour_of_day':
      return hours.format(Date.UTC(2024, 0, 1, Number(key)));
    case 'day': {
      const day = dayAt(Date.parse(String(key)), timeZone);
      return formatDays({ from: day, to: day });
    }
    default:
      return dataLabel(String(key), [none, texts.groups.empty]);
  }
}
