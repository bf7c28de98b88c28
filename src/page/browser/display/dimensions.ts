import { statsDimensions } from '../../../domain/purchase-query.ts';
import { texts } from '../language/language.ts';
import { formatDays } from './format.ts';

/** The dimensions of a ranking, with their names. */
export const dimensions = statsDimensions.map((name) => ({
  value: name as string,
  label: texts.dimensions[name],
}));

export const dimensionLabel = (name: string): string =>
  dimensions.find(({ value }) => value === name)?.label ?? name;

/** A status of a purchase, flow or campaign. Other systems may write any text. */
export const statusLabel = (status: string): string =>
  (texts.statuses as Readonly<Record<string, string>>)[status] ?? status;

/** The text of a group. Purchases without a value form the group null. */
export function groupLabel(dimension: string, key: string | null): string {
  if (key === null) return texts.groups.none(dimensionLabel(dimension));
  if (key === '') return texts.groups.empty;
  if (dimension === 'status') return statusLabel(key);
  return dimension === 'day' ? formatDays({ from: key, to: key }) : key;
}
