import { creationQuarter } from './quarter-hours.ts';

/**
 * Columns of a base: the quarter of an hour in which the customer of a purchase made the previous
 * purchase of the base, in the order of creation; and the previous one with the same payment status.
 * Filters have only `paymentStatuses`: all other statuses, and a missing one, count as the same status
 * (last-purchases.ts). Without a previous purchase, the quarter is one before all purchases of the base.
 *
 * So a purchase is its customer's first since an instant that begins a quarter if the previous one is
 * from an earlier quarter, and distinct customers are counted without hashing them.
 */
export const previousQuarters = {
  ofAny: { name: 'previous_quarter_hour', type: creationQuarter.type },
  ofStatus: { name: 'previous_of_status_quarter_hour', type: creationQuarter.type },
} as const;

/** The names of these columns, as an SQL list. */
export const previousQuarterNames: string = Object.values(previousQuarters)
  .map(({ name }) => name)
  .join(', ');
