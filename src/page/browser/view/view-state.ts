import { statsDimensions } from '../../../domain/purchase-query.ts';
import { browserTimeZone, isDay, isTimeZone } from './calendar.ts';
import { filters } from './filters.ts';
import { type PeriodName, periodNames } from './period.ts';

/** What the dashboard shows. It is in the URL after `#`, which browsers send to no server. */
export type ViewState = {
  readonly period: PeriodName;
  /** The days of the period `custom`. */
  readonly from: string;
  readonly to: string;
  readonly timezone: string;
  readonly group_by: string;
  readonly group_limit: '10' | '50';
  readonly interval: string;
  readonly measure: MeasureName;
  /** The lines of the chart: one, or one for each of the largest groups of the ranking. */
  readonly split: 'none' | 'groups';
  /** Values by the name of the filter. */
  readonly filters: Readonly<Record<string, string>>;
};

export const intervals = {
  auto: 'Automatic',
  hour: 'Hour',
  day: 'Day',
  week: 'Week',
  month: 'Month',
} as const;

export function readState(hash = location.hash): ViewState {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const oneOf = (name: string, values: readonly string[], initial: string) => {
    const value = given.get(name) ?? initial;
    return values.includes(value) ? value : initial;
  };
  const day = (name: string) => {
    const value = given.get(name) ?? '';
    return isDay(value) ? value : '';
  };
  const timezone = given.get('timezone') ?? '';
  return {
    period: oneOf('period', periodNames, 'last30') as PeriodName,
    from: day('from'),
    to: day('to'),
    timezone: isTimeZone(timezone) ? timezone : browserTimeZone(),
    group_by: oneOf('group_by', statsDimensions, 'utm_source'),
    group_limit: oneOf('group_limit', ['10', '50'], '10') as '10' | '50',
    interval: oneOf('interval', Object.keys(intervals), 'auto'),
    measure: oneOf('measure', measureNames, 'revenue_in_cents') as MeasureName,
    split: oneOf('split', ['none', 'groups'], 'none') as ViewState['split'],
    filters: Object.fromEntries(
      filters.flatMap(({ name }) => {
        const value = given.get(name) ?? '';
        return value === '' ? [] : [[name, value]];
      }),
    ),
  };
}

export const measureNames = [
  'revenue_in_cents',
  'purchase_count',
  'customer_count',
  'average_ticket_in_cents',
] as const;
export type MeasureName = (typeof measureNames)[number];

export const measureLabels: Readonly<Record<MeasureName, string>> = {
  revenue_in_cents: 'Revenue',
  purchase_count: 'Purchases',
  customer_count: 'Customers',
  average_ticket_in_cents: 'Average ticket',
};

export const isMoney = (measure: MeasureName): boolean => measure.endsWith('_in_cents');

/** The time zone is always included, so a shared link shows the same days everywhere. */
export function hashOf({ filters: values, from, to, ...state }: ViewState): string {
  const dates = state.period === 'custom' ? { from, to } : {};
  return `#${new URLSearchParams({ ...state, ...dates, ...values })}`;
}
