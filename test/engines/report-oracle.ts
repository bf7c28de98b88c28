import { comparedPeriod } from '../../src/domain/comparison.ts';
import { parseInstant } from '../../src/domain/instant.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import {
  type Cohort,
  type Comparison,
  type DimensionValue,
  isPeriodDimension,
  type PeriodDimension,
  type PurchaseCohorts,
  type PurchaseCohortsQuery,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportMeasure,
  type ReportOrder,
} from '../../src/domain/purchase-report.ts';
import type { PurchaseValues } from '../support/shop.ts';
import { localTime, periodAfter, periodAt, periodsBetween } from './oracle-calendar.ts';

/** With an order, and without an automatic interval. */
export type OracleQuery = Omit<PurchaseReportQuery, 'groupBy' | 'orderBy'> & {
  readonly groupBy: readonly ReportDimension[];
  readonly orderBy: ReportOrder;
};

/** Reports and cohorts over rows in memory, without SQL. */

export type OracleRow = PurchaseValues & { readonly id: bigint };

const instantOf = (row: OracleRow): bigint =>
  parseInstant(String(row.created_at), 'down') as bigint;
const centsOf = (row: OracleRow): bigint => BigInt(row.purchase_value_in_cents as bigint);
const columnOf = (name: string): keyof PurchaseValues =>
  (name === 'status' ? 'payment_status' : name) as keyof PurchaseValues;
const labelOf = (row: OracleRow, name: string): string | null =>
  (row[columnOf(name)] as string | undefined) ?? null;

/** The codes of coupons, each once; null without one. */
function codesOf({ coupons }: OracleRow): (string | null)[] {
  const stored: { code?: unknown }[] = JSON.parse(String(coupons ?? '[]'));
  const codes = stored.map(({ code }) => code).filter((code) => code !== undefined);
  return codes.length === 0 ? [null] : [...new Set(codes.map(String))];
}

function matches(row: OracleRow, filters: PurchaseFilters): boolean {
  const { paymentStatuses, platforms, createdSince, createdUntil, without = [] } = filters;
  const { minValueInCents, maxValueInCents, customerId } = filters;
  const isOneOf = (name: string, values: readonly string[] | undefined) =>
    values === undefined || values.includes(labelOf(row, name) as string);
  return (
    (customerId === undefined || row.customer_id === customerId) &&
    isOneOf('status', paymentStatuses) &&
    isOneOf('platform', platforms) &&
    (createdSince === undefined || instantOf(row) >= createdSince) &&
    (createdUntil === undefined || instantOf(row) <= createdUntil) &&
    (minValueInCents === undefined || centsOf(row) >= minValueInCents) &&
    (maxValueInCents === undefined || centsOf(row) <= maxValueInCents) &&
    isOneOf('currency', filters.currency) &&
    isOneOf('utm_source', filters.utm_source) &&
    (filters.coupon ?? codesOf(row)).some((code) => codesOf(row).includes(code)) &&
    without.every((name) =>
      name === 'coupon' ? codesOf(row)[0] === null : labelOf(row, name) === null,
    )
  );
}

/** The ids of the customers' first purchases with these payment statuses. */
function firstPurchases(
  rows: readonly OracleRow[],
  { paymentStatuses }: PurchaseFilters,
): Set<bigint> {
  const firsts = new Map<bigint, OracleRow>();
  for (const row of rows.filter((row) => matches(row, { paymentStatuses }))) {
    const known = firsts.get(row.customer_id);
    const isEarlier =
      known === undefined ||
      instantOf(row) < instantOf(known) ||
      (instantOf(row) === instantOf(known) && row.id < known.id);
    if (isEarlier) firsts.set(row.customer_id, row);
  }
  return new Set([...firsts.values()].map(({ id }) => id));
}

const customersOf = (rows: readonly OracleRow[]): bigint =>
  BigInt(new Set(rows.map(({ customer_id }) => customer_id)).size);
const sum = (values: readonly bigint[]): bigint => values.reduce((one, other) => one + other, 0n);

/** The smallest value that at least so many tenths of the rows do not exceed. */
function quantileOf(rows: readonly OracleRow[], tenths: number): bigint {
  const values = rows.map(centsOf).sort((one, other) => (one < other ? -1 : 1));
  const isEnough = (value: bigint) =>
    10 * values.filter((other) => other <= value).length >= tenths * values.length;
  return values.find(isEnough) ?? 0n;
}

function measure(name: ReportMeasure, rows: readonly OracleRow[], firsts: Set<bigint>): bigint {
  const count = BigInt(rows.length);
  const revenue = sum(rows.map(centsOf));
  const absolute = revenue < 0n ? -revenue : revenue;
  switch (name) {
    case 'purchase_count':
      return count;
    case 'revenue_in_cents':
      return revenue;
    case 'average_ticket_in_cents': {
      if (count === 0n) return 0n;
      // Half a cent is rounded away from zero.
      const rest = absolute % count;
      const rounded = absolute / count + (2n * rest >= count ? 1n : 0n);
      return revenue < 0n ? -rounded : rounded;
    }
    case 'customer_count':
      return customersOf(rows);
    case 'new_customer_count':
      return customersOf(rows.filter(({ id }) => firsts.has(id)));
    case 'returning_customer_count':
      return customersOf(rows.filter(({ id }) => !firsts.has(id)));
    case 'repeat_customer_count': {
      const ids = rows.map(({ customer_id }) => customer_id);
      return BigInt(new Set(ids.filter((id, index) => ids.indexOf(id) !== index)).size);
    }
    case 'median_value_in_cents':
      return quantileOf(rows, 5);
    case 'p90_value_in_cents':
      return quantileOf(rows, 9);
    default:
      return sum(rows.map((row) => BigInt((row[name] as bigint | null | undefined) ?? 0n)));
  }
}

function currenciesOf(rows: readonly OracleRow[]) {
  const names = new Set(rows.map((row) => labelOf(row, 'currency')));
  names.delete(null);
  const [currency = null] = names;
  return { currency: names.size === 1 ? currency : null, mixedCurrencies: names.size > 1 };
}

/** Ascending, null last. Text is in the order of its bytes. */
function compareValues(one: DimensionValue, other: DimensionValue): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  if (typeof one === 'string') return Buffer.compare(Buffer.from(one), Buffer.from(String(other)));
  const [left, right] = [BigInt(one), BigInt(other)];
  return left < right ? -1 : left > right ? 1 : 0;
}

type Row = { keys: DimensionValue[]; values: bigint[]; compared: bigint[] | null };

/** A period that only the compared time has follows one with the same beginning that the report has. */
const aloneAt = (period: bigint): bigint => period + 1n;
const isAlone = (key: bigint): boolean => key % 1000n !== 0n;
const shownKey = (name: ReportDimension | undefined, key: DimensionValue): DimensionValue =>
  name !== undefined && isPeriodDimension(name) && isAlone(key as bigint)
    ? (key as bigint) - 1n
    : key;

/**
 * The period of a report that is compared with the purchase of an instant because its local label is a month or
 * a year later; null if the report has none, and undefined if periods are compared by place.
 */
function rowOfLabel(
  name: PeriodDimension,
  compareTo: Comparison,
  zone: string,
  bounds: readonly [bigint, bigint],
  instant: bigint,
): bigint | null | undefined {
  if (name === 'week' || !/^previous_(month|year)$/.test(compareTo)) return undefined;
  const months = compareTo === 'previous_month' ? 1 : 12;
  const { date, hour } = localTime(zone, instant);
  const [year = 0, month = 0, day = 0] = date.split('-').map(Number);
  const later = new Date(Date.UTC(year, month - 1 + months, 1)).toISOString().slice(0, 7);
  const text = (number: number) => String(number).padStart(2, '0');
  const labels: Record<string, (date: string, hour: number) => string> = {
    hour: (date, hour) => `${date} ${text(hour)}`,
    day: (date) => date,
    month: (date) => date.slice(0, 7),
    quarter: (date) => `${date.slice(0, 4)} ${Math.ceil(Number(date.slice(5, 7)) / 3)}`,
    year: (date) => date.slice(0, 4),
  };
  const labelOf = labels[name] as (date: string, hour: number) => string;
  const wanted = labelOf(`${later}-${text(day)}`, hour);
  return (
    periodsBetween(name, zone, bounds).find((period) => {
      const local = localTime(zone, period);
      return labelOf(local.date, local.hour) === wanted;
    }) ?? null
  );
}

export async function oracleReport(
  rows: readonly OracleRow[],
  query: OracleQuery,
  asOf: bigint,
): Promise<PurchaseReport> {
  const { filters, measures, groupBy, timeZone, orderBy, limit, compareTo } = query;
  const zone = timeZone ?? 'UTC';
  const firsts = firstPurchases(rows, filters);
  const since = filters.createdSince as bigint;
  const until = filters.createdUntil ?? asOf;
  const compared = compareTo && (await comparedPeriod({ since, until }, compareTo, timeZone));
  const sides: PurchaseFilters[] = [filters];
  if (compared !== undefined) {
    sides[0] = { ...filters, createdUntil: until };
    sides.push({ ...filters, createdSince: compared.since, createdUntil: compared.until });
  }
  const [current] = sides as [PurchaseFilters];
  const matching = sides.map((side) => rows.filter((row) => matches(row, side)));

  const keyOf = (row: OracleRow, side: number, name: ReportDimension): DimensionValue => {
    const instant = instantOf(row);
    if (name === 'customer') return row.customer_id;
    if (name === 'customer_type') return firsts.has(row.id) ? 'new' : 'returning';
    if (name === 'weekday') return localTime(zone, instant).weekday;
    if (name === 'hour_of_day') return localTime(zone, instant).hour;
    if (!isPeriodDimension(name)) return labelOf(row, name);
    const period = periodAt(name, zone, instant);
    if (side === 0) return period;
    const labelled = compareTo && rowOfLabel(name, compareTo, zone, [since, until], instant);
    if (labelled !== undefined) return labelled ?? aloneAt(period);
    const before = periodsBetween(name, zone, [sides[1]?.createdSince as bigint, instant]);
    return periodAfter(name, zone, since, before.length - 1);
  };
  const groups = new Map<string, { keys: DimensionValue[]; sides: OracleRow[][] }>();
  const groupOf = (keys: DimensionValue[]) => {
    const text = JSON.stringify(keys.map((key) => [typeof key, String(key)]));
    const group = groups.get(text) ?? { keys, sides: sides.map(() => []) };
    groups.set(text, group);
    return group;
  };
  if (groupBy.length > 0) {
    for (const [side, ofSide] of matching.entries()) {
      for (const row of ofSide) {
        for (const code of groupBy.includes('coupon') ? codesOf(row) : [null]) {
          const keys = groupBy.map((name) => (name === 'coupon' ? code : keyOf(row, side, name)));
          groupOf(keys).sides[side]?.push(row);
        }
      }
    }
  }
  const [period] = groupBy;
  if (groupBy.length === 1 && period !== undefined && isPeriodDimension(period)) {
    const instants = (matching[0] ?? []).map(instantOf);
    const least = instants.reduce<bigint | undefined>(
      (one, other) => (one === undefined || other < one ? other : one),
      undefined,
    );
    const greatest = instants.reduce<bigint | undefined>(
      (one, other) => (one === undefined || other > one ? other : one),
      undefined,
    );
    const from = current.createdSince ?? least;
    const to = current.createdUntil ?? greatest;
    let last = to;
    for (const { keys } of groups.values()) {
      const key = keys[0] as bigint;
      if (last !== undefined && !isAlone(key) && key > last) last = key;
    }
    if (from !== undefined && last !== undefined && from <= last) {
      for (const start of periodsBetween(period, zone, [from, last])) groupOf([start]);
    }
  }
  const valuesOf = (ofSide: readonly OracleRow[]) =>
    measures.map((name) => measure(name, ofSide, firsts));
  const rowOf = (ofSides: readonly OracleRow[][]) => ({
    values: valuesOf(ofSides[0] ?? []),
    compared: ofSides.length === 1 ? null : valuesOf(ofSides[1] ?? []),
  });
  const all: Row[] = [...groups.values()].map(({ keys, sides }) => ({ keys, ...rowOf(sides) }));
  const position = groupBy.indexOf(orderBy.by as ReportDimension);
  const sign = orderBy.isDescending ? -1 : 1;
  const orderOf = ({ keys, values }: Row): DimensionValue =>
    (position === -1 ? values[measures.indexOf(orderBy.by as ReportMeasure)] : keys[position]) ??
    null;
  all.sort((one, other) => {
    const [left, right] = [orderOf(one), orderOf(other)];
    const first = compareValues(left, right);
    if (first !== 0) return left === null || right === null ? first : sign * first;
    for (const [index, key] of one.keys.entries()) {
      const tie = compareValues(key, other.keys[index] ?? null);
      if (tie !== 0) return tie;
    }
    return 0;
  });
  return {
    ...currenciesOf(matching.flat()),
    groupBy,
    period: { since: current.createdSince ?? null, until: current.createdUntil ?? null },
    comparedPeriod: compared ?? null,
    totals: rowOf(matching),
    rows: all.slice(0, limit).map((row) => ({
      ...row,
      keys: row.keys.map((key, index) => shownKey(groupBy[index], key)),
    })),
    rowsTruncated: all.length > limit,
  };
}

export function oracleCohorts(
  rows: readonly OracleRow[],
  { filters, interval, groupBy, timeZone, periods }: PurchaseCohortsQuery,
  asOf: bigint,
): PurchaseCohorts {
  const zone = timeZone ?? 'UTC';
  const { paymentStatuses } = filters;
  const firsts = firstPurchases(rows, filters);
  const counted = rows.filter((row) => matches(row, { paymentStatuses }));
  const won = new Map<string, { startsAt: bigint; key: string | null; customers: Set<bigint> }>();
  for (const row of counted.filter((row) => firsts.has(row.id) && matches(row, filters))) {
    const startsAt = periodAt(interval, zone, instantOf(row));
    const key = groupBy === undefined ? null : labelOf(row, groupBy);
    const text = JSON.stringify([String(startsAt), key]);
    const cohort = won.get(text) ?? { startsAt, key, customers: new Set() };
    cohort.customers.add(row.customer_id);
    won.set(text, cohort);
  }
  const present = periodAt(interval, zone, asOf);
  const cohorts = [...won.values()].map(({ startsAt, key, customers }): Cohort => {
    const purchases = counted.filter(({ customer_id }) => customers.has(customer_id));
    const starts = periodsBetween(interval, zone, [startsAt, present]).slice(0, periods);
    return {
      startsAt,
      key,
      customerCount: BigInt(customers.size),
      periods: starts.map((start) => {
        const within = purchases.filter(
          (row) => periodAt(interval, zone, instantOf(row)) === start,
        );
        return {
          customerCount: customersOf(within),
          purchaseCount: BigInt(within.length),
          revenueInCents: sum(within.map(centsOf)),
          isComplete: start < present,
        };
      }),
    };
  });
  cohorts.sort(
    (one, other) =>
      compareValues(one.startsAt, other.startsAt) || compareValues(one.key, other.key),
  );
  const customers = new Set([...won.values()].flatMap(({ customers }) => [...customers]));
  return {
    ...currenciesOf(counted.filter(({ customer_id }) => customers.has(customer_id))),
    cohorts,
  };
}
