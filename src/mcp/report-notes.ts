import { endOfPeriodAt, type WeekStart } from '../domain/period.ts';
import { optionalDimensions } from '../domain/purchase-query.ts';
import {
  type Comparison,
  isPeriodDimension,
  reportLimits,
  stepMonths,
} from '../domain/purchase-report.ts';
import { type Currencies, noMatch, noteUtc, type ToolRead, textsAreData, zoneOf } from './notes.ts';

type ReportResponse = Currencies & {
  readonly measures: readonly string[];
  readonly group_by: readonly string[];
  readonly period: { readonly days: number | null };
  readonly compared_period: { readonly days: number | null } | null;
  readonly totals: Readonly<Record<string, unknown>>;
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  readonly rows_truncated: boolean;
};
type ReportRead = ToolRead<ReportResponse>;

export async function noteReport(read: ReportRead): Promise<string[]> {
  const { query, response } = read;
  const isLocal = response.group_by.some(
    (name) => isPeriodDimension(name) || /^(weekday|hour)/.test(name),
  );
  return [
    ...(isEmpty(response) ? [noMatch] : []),
    ...noteRows(read),
    ...(await noteCutPeriods(read)),
    ...(isLocal || query.compare_to !== undefined ? noteUtc(read) : []),
    ...(response.compared_period === null
      ? []
      : [noteCompared(query.compare_to as Comparison), ...noteDays(response)]),
    ...(query.expand === undefined ? [] : [textsAreData]),
  ];
}

const noteCompared = (comparison: Comparison): string =>
  `compared has the figures of compared_period. Rows of periods are matched by their ${
    stepMonths(comparison) === null ? 'position in it' : 'local dates'
  }.`;

function noteDays({ period, compared_period: compared }: ReportResponse): string[] {
  if (compared === null || period.days === compared.days) return [];
  return [
    `period has ${period.days} days, and compared_period ${compared.days}: compare revenue and counts by day.`,
  ];
}

const isEmpty = ({ totals, rows }: ReportResponse): boolean =>
  rows.length === 0 && Object.values(totals).every((total) => total === 0);

function noteRows({ response }: ReportRead): string[] {
  const { rows, measures, group_by: groupBy, rows_truncated: isTruncated } = response;
  const notes: string[] = [];
  if (isTruncated) {
    notes.push(
      `Rows are missing: these are ${rows.length} of more. Set a larger limit (at most ${reportLimits.max}), or fewer dimensions. totals cover all.`,
    );
  }
  const notAdded = measures.filter((name) =>
    /^((returning|repeat)_)?customer_count$|^(median|p90)_/.test(name),
  );
  if (rows.length > 1 && notAdded.length > 0) {
    notes.push(
      `Rows of ${notAdded.join(', ')} do not add up: totals have the numbers of all rows.`,
    );
  }
  if (rows.length > 1 && groupBy.includes('coupon')) {
    notes.push(
      'A purchase with several coupons is in several rows: rows do not add up. totals count it once.',
    );
  }
  for (const name of groupBy.filter(isOptional)) {
    if (!rows.some((row) => row[name] === null)) continue;
    notes.push(
      `${name} null means purchases without one. To select them, set without to ["${name}"].`,
    );
  }
  return notes;
}

const isOptional = (name: string): boolean =>
  (optionalDimensions as readonly string[]).includes(name);

/** Says which periods have only a part of their time in the report. */
async function noteCutPeriods({ query, response, asOf }: ReportRead): Promise<string[]> {
  if (asOf === undefined) return [];
  const [since, until] = [query.created_since, query.created_until] as (bigint | undefined)[];
  const interval = response.group_by.find(isPeriodDimension);
  if (interval === undefined) {
    const isOpen = since !== undefined && until === undefined;
    return isOpen ? ['Without created_until, the period ends at the instant of the data.'] : [];
  }
  const weekStart = query.week_start as WeekStart | undefined;
  const calendar = { interval, timeZone: zoneOf(query), weekStart };
  const beginsAt = async (instant: bigint) =>
    (await endOfPeriodAt(calendar, instant - 1n)) === instant;
  const notes: string[] = [];
  if (until === undefined || until >= asOf) {
    notes.push(
      `The ${interval} of the instant of the data is not over: do not compare it with a whole ${interval}.`,
    );
  } else if (!(await beginsAt(until + 1n))) {
    notes.push(`created_until cuts the last ${interval}, which is not a whole one.`);
  }
  if (since !== undefined && !(await beginsAt(since))) {
    notes.push(`created_since cuts the first ${interval}, which is not a whole one.`);
  }
  return notes;
}
