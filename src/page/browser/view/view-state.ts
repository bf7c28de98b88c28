import { trackingLabels } from '../../../domain/purchase.ts';
import { queryOf } from '../api/path.ts';
import { ApiProblem } from '../api/problem.ts';
import { texts } from '../language/language.ts';
import { browserTimeZone, isDay, isTimeZone } from './calendar.ts';
import {
  exclusion,
  type Filters,
  filters,
  isExclusion,
  isPossibleValue,
  isSelected,
  parametersOf,
  valuesIn,
} from './filters.ts';
import {
  type Comparison,
  comparisonNames,
  daysOf,
  defaultComparison,
  isPossible,
  type PeriodName,
  periodNames,
} from './period.ts';

/** What the dashboard shows. It is in the URL after `#`, which browsers send to no server. */
export type ViewState = {
  readonly period: PeriodName;
  /** The days of the period `custom`. */
  readonly from: string;
  readonly to: string;
  readonly timezone: string;
  /** All time is compared with nothing, whatever this is. */
  readonly compare_to: Comparison;
  readonly group_by: string;
  /** The dimensions from which filters have led the ranking on, the last one last. */
  readonly drilled: readonly string[];
  /** The second dimension of the ranking, or `none`. */
  readonly then_by: string;
  readonly group_limit: '10' | '50';
  readonly interval: string;
  readonly measure: MeasureName;
  /** The lines of the chart: one, or one for each of the largest groups of the ranking. */
  readonly split: 'none' | 'groups';
  readonly cohort_interval: CohortInterval;
  /** If purchases have several currencies and no filter selects one: whether the page selects the most frequent. */
  readonly currencies: 'one' | 'all';
  /** Values by the name of the filter. Without `status`, purchases of every payment status. */
  readonly filters: Filters;
};

/** The dimensions of the ranking. Each is a dimension of reports. */
export const rankingDimensions: readonly string[] = [
  ...trackingLabels,
  'platform',
  'status',
  'currency',
  'coupon',
  'customer_type',
  'shipping_status',
  'weekday',
  'hour_of_day',
  'day',
];

export const intervals = ['auto', 'hour', 'day', 'week', 'month', 'year'] as const;

export const cohortIntervals = ['week', 'month', 'quarter'] as const;
export type CohortInterval = (typeof cohortIntervals)[number];

/** The payment statuses that the page counts unless its user chooses others. */
export const defaultStatus = 'paid';
/** Whether paid purchases count alone. */
export const isOnlyPaid = ({ status }: Filters): boolean => status?.join() === defaultStatus;
/** In the URL, for no filter by status. */
const allStatuses = 'all';

/** The state that a link means, and what is wrong in the link. */
export function readLink(hash: string) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const problems: ApiProblem[] = [];
  const refuse = (param: string, message: string) =>
    problems.push(new ApiProblem(message, 422, param));
  const read = (name: string, initial: string, isValid: (value: string) => boolean) => {
    const value = given.get(name) || initial;
    if (value === initial || isValid(value)) return value;
    refuse(
      name,
      isValid === isDay ? texts.problems.noDay(value) : texts.problems.unknown(`${name}=${value}`),
    );
    return initial;
  };
  const readAll = (name: string, isValid: (value: string) => boolean) =>
    valuesIn(name, given.getAll(name)).filter((value) => {
      if (isValid(value)) return true;
      refuse(name, texts.problems.unknown(`${name}=${value}`));
      return false;
    });
  const oneOf = <Value extends string>(name: string, values: readonly Value[], initial: Value) =>
    read(name, initial, (value) => (values as readonly string[]).includes(value)) as Value;
  const wanted = oneOf('period', periodNames, 'last30');
  const [from, to] =
    wanted === 'custom' ? [read('from', '', isDay), read('to', '', isDay)] : ['', ''];
  if (to !== '' && to < from) refuse('from', texts.controls.reversed);
  const isWrong = problems.some(({ param }) => param === 'from' || param === 'to');
  const period = isWrong ? 'last30' : wanted;
  const group_by = oneOf('group_by', rankingDimensions, 'utm_source');
  const then_by = oneOf('then_by', ['none', ...rankingDimensions], 'none');
  const filters = readFilters(readAll);
  const drilled = readAll('drilled', (name) => rankingDimensions.includes(name));
  const state: ViewState = {
    ...{ period, from, to, group_by, filters },
    drilled: drilled.filter((name) => isSelected(filters, name)),
    timezone: read('timezone', browserTimeZone(), isTimeZone),
    compare_to: oneOf('compare_to', comparisonNames, defaultComparison(period)),
    then_by: then_by === group_by ? 'none' : then_by,
    group_limit: oneOf('group_limit', ['10', '50'], '10'),
    interval: oneOf('interval', intervals, 'auto'),
    measure: oneOf('measure', measureNames, 'revenue_in_cents'),
    split: oneOf('split', ['none', 'groups'], 'none'),
    currencies: oneOf('currencies', ['one', 'all'], 'one'),
    cohort_interval: oneOf('cohort_interval', cohortIntervals, 'month'),
  };
  if (isPossible(state.interval, daysOf(state), state.compare_to)) return { state, problems };
  refuse('interval', texts.problems.interval);
  return { state: { ...state, interval: 'auto' }, problems };
}

type ReadAll = (name: string, isValid: (value: string) => boolean) => readonly string[];

/** The filters in a link. */
function readFilters(read: ReadAll): Filters {
  const selected = filters.map((filter) => {
    const values = read(filter.name, (value) => isPossibleValue(filter, value));
    return [filter.name, filter.name === 'status' ? statusesOf(values) : values] as const;
  });
  const all = [...selected, [exclusion, read(exclusion, isExclusion)] as const];
  return Object.fromEntries(all.filter(([, values]) => values.length > 0));
}

function statusesOf(values: readonly string[]): readonly string[] {
  if (values.length === 0) return [defaultStatus];
  return values.includes(allStatuses) ? [] : values;
}

export const measureNames = [
  'revenue_in_cents',
  'purchase_count',
  'customer_count',
  'average_ticket_in_cents',
] as const;
export type MeasureName = (typeof measureNames)[number];

export const isMoney = (measure: MeasureName): boolean => measure.endsWith('_in_cents');

/** The time zone is always included, so a shared link shows the same days everywhere. */
export function hashOf({ filters: values, from, to, ...state }: ViewState): string {
  const dates = state.period === 'custom' ? { from, to } : {};
  return `#${queryOf({ ...state, ...dates, status: allStatuses, ...parametersOf(values) })}`;
}
