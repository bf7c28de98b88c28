import { statsDimensions } from '../../../domain/purchase-query.ts';
import { filterNamed, labelOfTracking } from '../view/filters.ts';
import { formatDays } from './format.ts';

/** The dimensions of a ranking, with their names. */
export const dimensions = statsDimensions.map((name) => ({
  value: name as string,
  label:
    filterNamed(name)?.label ??
    { currency: 'Currency', day: 'Day' }[name as string] ??
    labelOfTracking(name),
}));

export const dimensionLabel = (name: string): string =>
  dimensions.find(({ value }) => value === name)?.label ?? name;

/** The text of a group. Purchases without a value form the group null. */
export function groupLabel(dimension: string, key: string | null): string {
  if (key === null)
    return `No ${dimensionLabel(dimension).replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())}`;
  if (key === '') return 'Empty text';
  return dimension === 'day' ? formatDays({ from: key, to: key }) : key;
}
