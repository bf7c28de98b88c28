import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import sql, { raw, type Sql } from 'sql-template-tag';
import {
  arePeriodsInOrder,
  isOfMonths,
  type PeriodCalendar,
  periodOffsets,
} from '../../../domain/period.ts';
import { withDuckDBConnection } from '../../../duckdb/connection.ts';
import { defaultShortcuts, type Shortcuts } from '../../../duckdb/shortcuts.ts';
import {
  beginOfQuarterHour,
  creationQuarter,
  quarterHourOf,
} from '../../../purchase-store/format/quarter-hours.ts';
import type { TimeBounds } from '../serving/generation.ts';
import { areInQuarterHours, firstDayOf, monthsOf } from './local-time.ts';

/**
 * Tables with the period of each quarter of an hour, in a database in memory that the queries of an
 * instance share. DuckDB joins one with a base by direct addressing, so that the calendar costs nothing:
 * computed for each of ten million purchases, weeks take 1.4 times as long, weeks of Berlin 2.4 times, and
 * its months 3.5 times.
 */
export type SharedPeriodTables = {
  /** The tables for the transaction that is open on a connection. */
  of(connection: DuckDBConnection): PeriodTables;
};

/**
 * The period tables that one transaction sees. A transaction sees no table that is created or replaced after
 * its first use of their database, so it gets only tables of that time.
 */
export type PeriodTables = {
  /**
   * The table of a calendar's periods, as SQL, with all quarters of an hour within the bounds. Its columns
   * are that of `creationQuarter`, `period`, a key of domain/period.ts, and `period_begin`, the first quarter of the
   * period. Null if arithmetic takes less time for this number of purchases within the bounds, if periods do
   * not consist of quarters or are not in the order of time, and if the transaction does not see the table.
   */
  covering(calendar: PeriodCalendar, bounds: TimeBounds, purchases: number): Promise<Sql | null>;
};

/** A table may have this many times the quarters within the bounds. Others are read, but not joined. */
const maxUnused = 4;
/** The quarters of all tables together. Each takes 12 bytes. */
const maxQuartersOfAll = 2 ** 22;
/** DuckDB joins by direct addressing up to a million rows. */
const maxQuartersOfTable = 2 ** 19;

/** Quarters of an hour from `from` up to `until`, exclusive. */
type Quarters = { readonly from: number; readonly until: number };
type Table = Quarters & { readonly name: string };

const catalog = 'period_tables';
const { name: quarterColumn } = creationQuarter;

/** Joins purchases with the period of their quarter of an hour. */
export const joinPeriods = (table: Sql): Sql =>
  sql`join ${table} as period_of_quarter using (${raw(quarterColumn)})`;

export function createPeriodTables(
  instance: DuckDBInstance,
  shortcuts: Shortcuts = defaultShortcuts,
): SharedPeriodTables {
  const tables = new Map<string, Table>();
  /** One at a time: each creation may replace a table, and none is created while a transaction begins to see them. */
  const queue = new PQueue({ concurrency: 1 });

  const make = async (
    key: string,
    calendar: PeriodCalendar,
    wanted: Quarters,
    maxLength: number,
  ): Promise<Table | null> => {
    const known = tables.get(key);
    const { from, until } = known === undefined ? wanted : union(known, wanted);
    if (until - from > maxLength) return null;
    if (until === known?.until && from === known.from) return known;
    const others = [...tables.values()].filter((table) => table !== known);
    if (others.reduce((sum, table) => sum + lengthOf(table), until - from) > maxQuartersOfAll) {
      return null;
    }
    const [since, last] = [from, until - 1].map(beginOfQuarterHour) as [bigint, bigint];
    const offsets = await periodOffsets(calendar, since, last);
    if (!areInQuarterHours(offsets) || !arePeriodsInOrder(calendar.interval, offsets)) return null;
    const table = { name: known?.name ?? `${catalog}.period_${tables.size}`, from, until };
    const begin = firstDayOf(calendar.interval, offsets, raw('quarter'));
    const { interval } = calendar;
    await create(instance, table, isOfMonths(interval) ? monthsOf(interval, begin) : begin);
    tables.set(key, table);
    return table;
  };

  const createView = (connection: DuckDBConnection): PeriodTables => {
    /** The tables that the transaction sees; null before it has used their database. */
    let seen: ReadonlyMap<string, Table> | null = null;
    return {
      async covering(calendar, { since, until }, purchases) {
        const [first, last] = [quarterHourOf(since), quarterHourOf(until)];
        const isWithin = raw(`${quarterColumn} between ${first} and ${last}`);
        const quarters = roundedOut(first, last);
        const offsets = await periodOffsets(calendar, since, until);
        if (quarters === null || !areInQuarterHours(offsets)) return null;
        const isSimple = !isOfMonths(calendar.interval) && offsets.length === 1;
        const minimum = isSimple
          ? shortcuts.minPurchasesPerQuarterOfSimpleCalendars
          : shortcuts.minPurchasesPerQuarterOfOtherCalendars;
        const { interval, timeZone = '', weekStart = '' } = calendar;
        const key = `${interval} ${timeZone} ${weekStart}`;
        const maxQuarters = minimum === 0 ? Number.POSITIVE_INFINITY : purchases / minimum;
        if (lengthOf(quarters) > maxQuarters) return null;
        const maxLength = Math.min(maxUnused * maxQuarters, maxQuartersOfTable);
        await queue.add(async () => {
          const made = await make(key, calendar, quarters, maxLength);
          if (made === null || seen !== null) return;
          await connection.run(`from ${made.name} limit 0`);
          seen = new Map(tables);
        });
        const table = seen?.get(key);
        const isSeen = table !== undefined && table.from <= first && last < table.until;
        return isSeen ? sql`(select * from ${raw(table.name)} where ${isWithin})` : null;
      },
    };
  };
  return { of: createView };
}

/**
 * Extends a range by up to an eighth at both ends, so that a table seldom has to grow while time passes.
 * Null if the range is empty.
 */
function roundedOut(first: number, last: number): Quarters | null {
  if (last < first) return null;
  const block = 2 ** Math.max(0, Math.floor(Math.log2(last - first + 1)) - 3);
  return {
    from: Math.floor(first / block) * block,
    until: (Math.floor(last / block) + 1) * block,
  };
}

const lengthOf = ({ from, until }: Quarters): number => until - from;

const union = (one: Quarters, other: Quarters): Quarters => ({
  from: Math.min(one.from, other.from),
  until: Math.max(one.until, other.until),
});

/** `period` is the period of a `quarter`. */
async function create(
  instance: DuckDBInstance,
  { name, from, until }: Table,
  period: Sql,
): Promise<void> {
  const create = `
    attach if not exists ':memory:' as ${catalog};
    create or replace table ${name} as
    with quarters as materialized (
      select quarter as ${quarterColumn}, (${period.text})::integer as period
      from (select quarter::integer as quarter from range(${from}, ${until}) as numbers(quarter))
    )
    select ${quarterColumn}, period, period_begin
    from quarters
    join (select period, min(${quarterColumn}) as period_begin from quarters group by period)
      using (period)`;
  await withDuckDBConnection(instance, (connection) => connection.run(create));
}
