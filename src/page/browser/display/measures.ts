import type { Amounts } from '../api/responses.ts';
import { texts } from '../language/language.ts';
import { isMoney, isOnlyPaid, type MeasureName, type ViewState } from '../view/view-state.ts';
import { formatCount, formatMoney } from './format.ts';

/** Purchases that may not be paid have a value, but are no sales. */
export const areSales = ({ filters }: ViewState): boolean => isOnlyPaid(filters);

export const measureLabel = (measure: MeasureName, state: ViewState): string =>
  measure === 'revenue_in_cents' && !areSales(state) ? texts.totals.value : texts.measures[measure];

/** Nothing has no average. */
export const isMissing = (measure: MeasureName, { purchase_count: count }: Amounts): boolean =>
  measure === 'average_ticket_in_cents' && Number(count) === 0;

export function formatMeasure(
  measure: MeasureName,
  amounts: Amounts,
  currency: string | null,
): string {
  if (isMissing(measure, amounts)) return '–';
  return isMoney(measure) ? formatMoney(amounts[measure], currency) : formatCount(amounts[measure]);
}
