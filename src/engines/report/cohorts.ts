import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { type PeriodCalendar, periodKeyAt, periodsOfKeys } from '../../domain/period.ts';
import {
  type Cohort,
  type CohortPeriod,
  type Currencies,
  currenciesOf,
  maxCohorts,
  noCurrency,
  type PurchaseCohorts,
  type PurchaseCohortsQuery,
  TooManyCohortsError,
} from '../../domain/purchase-report.ts';
import type { ReportRows, ReportSource } from './source.ts';
import { customersOf, type Dialect, type DimensionSql, type PurchasePart } from './statement.ts';

/** The purchases that cohorts count. */
export type CohortPurchases = {
  /** Each part has all purchases of its customers. */
  readonly parts: readonly PurchasePart[];
  /** A condition of the first purchases that the filters select. */
  readonly isWon: Sql;
  /** Its key grows by one from period to period. */
  readonly period: DimensionSql;
  /** A dimension of first purchases. */
  readonly group: DimensionSql | null;
  readonly currency: DimensionSql;
};

/** What an engine knows of one version of an organization's purchases. */
export type CohortSource = Pick<ReportSource, 'dialect' | 'currencies' | 'query'> & {
  purchases(query: PurchaseCohortsQuery): Promise<CohortPurchases>;
};

/** The cohorts of the data as of `asOf`. Rejects with TooManyCohortsError. */
export async function readPurchaseCohorts(
  source: CohortSource,
  query: PurchaseCohortsQuery,
  asOf: bigint,
): Promise<PurchaseCohorts> {
  const { interval, timeZone, weekStart } = query;
  const calendar = { interval, timeZone, weekStart };
  const present = await periodKeyAt(calendar, asOf);
  const purchases = await source.purchases(query);
  if (purchases.parts.length === 0) return { ...noCurrency, cohorts: [] };
  const rows = await source.query(cohortStatement(source.dialect, purchases, query));
  const cohorts = await assemble(rows, calendar, present, query.periods);
  if (cohorts.length === 0) return { ...noCurrency, cohorts };
  const count = rows.reduce((sum, row) => sum + BigInt(row[4] as bigint), 0n);
  const known = (await source.currencies(count)) ?? (await currenciesIn(purchases, rows));
  return { ...known, cohorts };
}

async function currenciesIn({ currency }: CohortPurchases, rows: ReportRows): Promise<Currencies> {
  const found = new Set(rows.flatMap((row) => row.slice(6)));
  found.delete(null);
  const textOf = await currency.textsOf?.(found as ReadonlySet<number>);
  return currenciesOf([...found].map((key) => textOf?.(key as number) ?? (key as string)));
}

/** A row of `cohortStatement`. */
type CohortRow = {
  readonly cohort: number;
  readonly key: string | null;
  readonly age: number;
  readonly customerCount: bigint;
  readonly purchaseCount: bigint;
  readonly revenueInCents: bigint;
};

async function assemble(
  read: ReportRows,
  calendar: PeriodCalendar,
  present: number,
  maxAges: number,
): Promise<Cohort[]> {
  const rows = read.map(
    (row): CohortRow => ({
      cohort: Number(row[0]),
      key: row[1] as string | null,
      age: Number(row[2]),
      customerCount: BigInt(row[3] as bigint),
      purchaseCount: BigInt(row[4] as bigint),
      revenueInCents: BigInt(row[5] as bigint),
    }),
  );
  const byCohort = new Map<string, CohortRow[]>();
  for (const row of rows) {
    const id = JSON.stringify([row.cohort, row.key]);
    const known = byCohort.get(id);
    if (known === undefined) byCohort.set(id, [row]);
    else known.push(row);
  }
  if (byCohort.size > maxCohorts) throw new TooManyCohortsError();
  // There may be a thousand cohorts in thousands of years.
  const periods = await periodsOfKeys(calendar, [...new Set(rows.map(({ cohort }) => cohort))]);
  const beginnings = new Map(periods.map(({ key, startsAt }) => [key, startsAt]));
  return [...byCohort.values()].map((ofCohort) => {
    const { cohort, key } = ofCohort[0] as CohortRow;
    const byAge = new Map(ofCohort.map((row) => [row.age, row]));
    const ages = Math.min(maxAges, Math.max(0, present - cohort) + 1);
    return {
      startsAt: beginnings.get(cohort) as bigint,
      key,
      customerCount: byAge.get(0)?.customerCount ?? 0n,
      periods: Array.from({ length: ages }, (_, age): CohortPeriod => {
        const { customerCount, purchaseCount, revenueInCents } = byAge.get(age) ?? noPurchases;
        const isComplete = cohort + age < present;
        return { customerCount, purchaseCount, revenueInCents, isComplete };
      }),
    };
  });
}

const noPurchases = { customerCount: 0n, purchaseCount: 0n, revenueInCents: 0n };

/**
 * One row more than cohorts may have, if there are as many. Each cohort has one more, of all later ages. The last
 * columns are the least and the greatest currency of the row.
 */
function cohortStatement(
  dialect: Dialect,
  source: CohortPurchases,
  { periods }: PurchaseCohortsQuery,
): Sql {
  const { period, group } = source;
  const later = raw(String(periods));
  const matchedPeriod = (name: string) => period.match?.(raw(name)) ?? raw(name);
  const columns = raw('customers, purchases, cents, least, greatest');
  const parts = source.parts.map(
    (part) => sql`
      select ${matchedPeriod('cohort')} as cohort, ${group?.match?.(raw('g')) ?? raw('g')} as d,
        least(${matchedPeriod('period')} - ${matchedPeriod('cohort')}, ${later}) as age, ${columns}
      from (${byPeriod(dialect, source, part)}) as grouped`,
  );
  const shown = group?.shown?.(raw('report.d')) ?? { join: empty, value: raw('report.d') };
  const value = group === null ? sql`null` : shown.value;
  const order = group === null ? empty : sql`${dialect.inByteOrder(value)} asc nulls last,`;
  return sql`
    select cohort, ${value} as name, age, ${columns}
    from (
      select cohort, d, age, sum(customers) as customers, sum(purchases) as purchases, sum(cents) as cents,
        min(least) as least, max(greatest) as greatest
      from (${join(parts, ' union all ')}) as part
      group by cohort, d, age
    ) as report
    ${group === null ? empty : shown.join}
    where purchases > 0
    order by cohort, ${order} age
    limit ${raw(String(maxCohorts * (periods + 1) + 1))}`;
}

/** Selects cohort, group, period, customers, purchases, cents and currencies of a part. */
function byPeriod(
  dialect: Dialect,
  { isWon, period, group, currency }: CohortPurchases,
  part: PurchasePart,
): Sql {
  const { customer, count, sum } = dialect;
  const { purchases, condition, isFirst } = part;
  const key = raw(customer);
  return sql`
    select cohort, g, period, ${customersOf(dialect, part, null)} as customers,
      ${count} as purchases, ${sum(raw('cents'))} as cents,
      min(currency) as least, max(currency) as greatest
    from (
      select ${key}, ${period.key as Sql} as period, purchase_value_in_cents as cents,
        ${currency.key as Sql} as currency
      from ${purchases} where ${condition}
    ) as purchase
    join (
      select ${key} as won_customer, ${period.key as Sql} as cohort,
        ${(group?.key as Sql | undefined) ?? sql`0`} as g
      from ${purchases} where ${condition} and ${isFirst ?? sql`false`} and ${isWon}
    ) as won on won_customer = ${key}
    group by cohort, g, period`;
}
