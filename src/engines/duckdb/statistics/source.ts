import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { periodKeyAt } from '../../../domain/period.ts';
import {
  isUnfiltered,
  type LabelDimension,
  labelOfDimension,
  readsCoupons,
} from '../../../domain/purchase-query.ts';
import { isPeriodDimension, type PurchaseCohortsQuery } from '../../../domain/purchase-report.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import { labelKey, noLabel } from '../../../purchase-store/format/layout.ts';
import type { CohortSource } from '../../report/cohorts.ts';
import { dimensionOf, needsFirsts, ofCustomerType } from '../../report/dimensions.ts';
import { rangeOfRows } from '../../report/report-periods.ts';
import type { ReportSource, SideQuery } from '../../report/source.ts';
import {
  addsUp,
  isAmount,
  isQuantile,
  readsStatement,
  type Side,
  type SumName,
} from '../../report/statement.ts';
import { countCoupons } from '../coupons.ts';
import { purchasesMatching } from '../filters.ts';
import type { Reading } from '../query-context.ts';
import { timeBounds } from '../serving/generation.ts';
import { knownCurrencies } from './currencies.ts';
import { dialect, dimensionsOf, type JoinedDimension, labelSql, periodSql } from './dimensions.ts';
import { groupsOf, requireFewGroups } from './group-counts.ts';
import { type GroupedPeriods, purchaseParts } from './purchase-parts.ts';

/** A version of an organization's purchases. */
export function duckdbSource(reading: Reading): ReportSource & CohortSource {
  const { connection, generation, context } = reading;
  const { maxGroupsInMemory, maxReportGroups } = context.shortcuts;
  const source: ReportSource & CohortSource = {
    dialect,
    bounds: async (filters) => {
      if (generation.summary.isEmpty) return null;
      const { since, until } = timeBounds(generation.summary, filters);
      return { first: since, last: until };
    },
    range: (calendar, filters) => rangeOfRows(source, calendar, filters),
    async hasFewGroups(dimensions, sides) {
      if (dimensions.includes('customer')) return false;
      await countCoupons(reading, dimensions);
      return sides.every(
        (filters) => groupsOf(generation, dimensions, filters) <= maxGroupsInMemory,
      );
    },
    async requireFewGroups(query, sides) {
      await countCoupons(reading, query.dimensions);
      for (const filters of sides) requireFewGroups(generation, filters, query, maxReportGroups);
    },
    side: (side) => sideOf(reading, side),
    currencies: (count) => knownCurrencies(connection, generation, count),
    purchases: (query) => cohortPurchases(reading, query),
    readAll: (reads) => queryRows(connection, readsStatement(dialect, reads)),
    query: (statement) => queryRows(connection, statement),
  };
  return source;
}

async function cohortPurchases(
  reading: Reading,
  { filters, interval, groupBy, timeZone, weekStart }: PurchaseCohortsQuery,
) {
  const { connection, generation } = reading;
  const { paymentStatuses, ...others } = filters;
  const { createdSince } = filters;
  const counted = await purchasesMatching(connection, generation.labels, { paymentStatuses });
  // All counted purchases of a customer are later than the first one.
  const matching = await purchasesMatching(connection, generation.labels, {
    paymentStatuses,
    createdSince,
  });
  const isWon = await purchasesMatching(connection, generation.labels, others);
  const calendar = { interval, timeZone, weekStart };
  const period = await periodSql(reading, calendar, { paymentStatuses });
  const cohorts = groupsOf(
    generation,
    [interval, ...(groupBy === undefined ? [] : [groupBy])],
    filters,
  );
  // Each cohort has a group for each later period.
  const groups = cohorts * groupsOf(generation, [interval], { createdSince });
  const needs = { firsts: true, customers: true, presentRows: false, groups };
  const parts =
    counted === null || matching === null || isWon === null
      ? []
      : await purchaseParts(reading, filters, { matching, counted }, needs);
  const currency = labelSql(reading, 'currency');
  return {
    isWon: isWon ?? sql`false`,
    period,
    group: groupBy === undefined ? null : labelSql(reading, labelOfDimension(groupBy)),
    currency: { ...currency, key: raw(`nullif(${labelKey('currency')}, ${noLabel})`) },
    parts: parts.map((part) => ({
      ...part,
      purchases: sql`${part.purchases} ${period.joined ?? empty}`,
    })),
  };
}

/** Each group of customers has one, whose purchases in both parts add up. */
const customerSums: readonly SumName[] = ['customer_count', 'repeat_customer_count'];

async function sideOf(reading: Reading, side: SideQuery): Promise<Side> {
  const { connection, generation } = reading;
  const { filters, only } = side;
  const { labels } = generation;
  const matching = await purchasesMatching(connection, labels, filters);
  await countCoupons(reading, side.dimensions);
  const source = dimensionsOf(reading, side);
  const read: JoinedDimension[] = [];
  for (const dimension of side.dimensions) read.push(await dimensionOf(source, dimension, side));
  const dimensions = read.map(({ joined: _, ...dimension }) => dimension);
  if (matching === null) return { parts: [], dimensions };
  const firsts = needsFirsts(side);
  const ofCustomers = side.dimensions.includes('customer');
  const sums = side.sums.filter((name) => !ofCustomers || !customerSums.includes(name));
  const coupons = side.dimensions.includes('coupon') || readsCoupons(filters);
  const needs = {
    firsts,
    customers: firsts || sums.some((name) => !addsUp(name)),
    presentRows:
      coupons ||
      sums.some((name) => isAmount(name) || isQuantile(name) || name === 'repeat_customer_count'),
    coupons,
    groups: groupsOf(generation, side.dimensions, filters),
    periods: await periodsAlone(side, read),
    ofCustomers,
  };
  const { paymentStatuses } = filters;
  const counted = firsts ? await purchasesMatching(connection, labels, { paymentStatuses }) : null;
  const conditions = {
    matching: only === undefined ? matching : sql`${matching} and ${await isAmong(reading, side)}`,
    counted: counted ?? sql`false`,
  };
  const all = await purchaseParts(reading, filters, conditions, needs);
  const parts = all.map((part) => ofCustomerType(part, filters));
  const joined = join([empty, ...read.map(({ joined }) => joined ?? empty)], ' ');
  return {
    dimensions,
    parts: parts.map(({ corrected, ...part }) => ({
      ...part,
      purchases: sql`${part.purchases} ${joined}`,
      corrected: corrected && {
        ...corrected,
        purchases: sql`${corrected.purchases} ${joined}`,
      },
    })),
  };
}

/** Undefined if a customer's previous purchase with this payment status may not match. */
async function periodsAlone(
  { filters, dimensions, timeZone, weekStart, periodRows }: SideQuery,
  [{ beginsAfter, key } = {} as JoinedDimension]: readonly JoinedDimension[],
): Promise<GroupedPeriods | undefined> {
  const [interval] = dimensions;
  const { paymentStatuses: _, createdSince, createdUntil: __, ...others } = filters;
  const isAlone = dimensions.length === 1 && periodRows === null && isUnfiltered(others);
  if (!isAlone || beginsAfter === undefined || interval === undefined) return undefined;
  if (createdSince === undefined || !isPeriodDimension(interval))
    return { beginsAfter, isCut: null };
  const cut = await periodKeyAt({ interval, timeZone, weekStart }, createdSince);
  return { beginsAfter, isCut: sql`${key as Sql} = ${raw(String(cut))}` };
}

/** A condition of purchases with one of the wanted values of the first dimension. */
async function isAmong(
  { connection, generation }: Reading,
  { dimensions, only = [] }: SideQuery,
): Promise<Sql> {
  const label = labelOfDimension(dimensions[0] as LabelDimension);
  const texts = only.filter((value) => value !== null);
  const keys = await generation.labels.findKeys(connection, new Map([[label, texts]]));
  const all = [...(keys.get(label) ?? []), ...(only.includes(null) ? [noLabel] : [])];
  return all.length === 0 ? sql`false` : raw(`${labelKey(label)} in (${all.join(', ')})`);
}
