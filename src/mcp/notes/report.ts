import { endOfPeriodAt, type Interval, type WeekStart } from '../../domain/period.ts';
import { labelDimensions } from '../../domain/purchase-query.ts';
import { isPeriodDimension, reportLimits } from '../../domain/purchase-report.ts';
import {
  noMatch,
  noteCurrency,
  noteFilters,
  noteInstant,
  noteStatuses,
  noteUtc,
  type ToolRead,
  zoneOf,
} from './notes.ts';

export async function noteReport(read: ToolRead): Promise<string[]> {
  const { query, response } = read;
  const groupBy: readonly string[] = response.group_by;
  const isLocal = groupBy.some((name) => isPeriodDimension(name) || /^(weekday|hour)/.test(name));
  return [
    ...noteInstant(read),
    noteStatuses(read),
    ...noteCurrency(read),
    ...(isEmpty(response) ? [noMatch] : []),
    ...noteRows(read),
    ...(await noteCutPeriods(read)),
    ...(await noteFilters(read)),
    ...(isLocal || query.compare_to !== undefined ? noteUtc(read) : []),
    ...(response.compared_period === null
      ? []
      : [
          'compared has the figures of compared_period. Rows of periods are matched by their position in it.',
        ]),
  ];
}

const isEmpty = ({ totals, rows }: ToolRead['response']): boolean =>
  rows.length === 0 && Object.values(totals).every((total) => total === 0);

function noteRows({ response }: ToolRead): string[] {
  const { rows, measures, group_by: groupBy, rows_truncated: isTruncated } = response;
  const notes: string[] = [];
  if (isTruncated) {
    notes.push(
      `Rows are missing: these are ${rows.length} of more. Set a larger limit (at most ${reportLimits.max}), or fewer dimensions. totals cover all.`,
    );
  }
  if (rows.length > 1 && /(^|,)(returning_)?customer_count/.test(measures.join())) {
    notes.push(
      'customer_count and returning_customer_count count each customer once in a row: do not add rows up. totals have the numbers of all rows.',
    );
  }
  for (const name of groupBy.filter((each: string) => isLabel(each))) {
    if (!rows.some((row: Record<string, unknown>) => row[name] === null)) continue;
    notes.push(
      `${name} null means purchases without one. To select them, set without to ["${name}"].`,
    );
  }
  return notes;
}

const isLabel = (name: string): boolean => (labelDimensions as readonly string[]).includes(name);

/** Says which periods have only a part of their time in the report. */
async function noteCutPeriods({ query, response, asOf }: ToolRead): Promise<string[]> {
  if (asOf === undefined) return [];
  const [since, until] = [query.created_since, query.created_until] as (bigint | undefined)[];
  const interval: Interval | undefined = response.group_by.find(isPeriodDimension);
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
