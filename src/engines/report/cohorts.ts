import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { type PeriodCalendar, periodKeyAt, periodsOfKeys } from '../../domain/period.ts';
import type { PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  type Cohort,
  type CohortPeriod,
  type Currencies,
  maxCohorts,
  type PurchaseCohorts,
  type PurchaseCohortsQuery,
  TooManyCohortsError,
} from '../../domain/purchase-report.ts';
import type { Dialect, DimensionSql, Part } from './statement.ts';

/** A part that may know which purchases are their customer's first ones in their periods. */
export type CohortPart = Part & { readonly isFirstInPeriod?: Sql | undefined };

/** The purchases that cohorts count, with `is_first`. */
export type CohortSource = {
  /** Each part has all purchases of its customers. */
  readonly parts: readonly CohortPart[];
  /** A condition of the first purchases that the filters select. */
  readonly isWon: Sql;
  /** Its key grows by one from period to period. */
  readonly period: DimensionSql;
  /** A dimension of first purchases. */
  readonly group: DimensionSql | null;
  /** The key and the name of a currency. */
  readonly currency: DimensionSql;
  readonly hasCurrency: Sql;
};

/** What an engine knows of one version of an organization's purchases. */
export type CohortReader = {
  readonly dialect: Dialect;
  totals(filters: PurchaseFilters): Promise<PurchaseTotals>;
  source(query: PurchaseCohortsQuery): Promise<CohortSource>;
  query(statement: Sql): Promise<readonly (readonly unknown[])[]>;
};

/** The cohorts of the data as of `asOf`. Rejects with TooManyCohortsError. */
export async function purchaseCohorts(
  reader: CohortReader,
  query: PurchaseCohortsQuery,
  asOf: bigint,
): Promise<PurchaseCohorts> {
  const { interval, timeZone, weekStart, filters } = query;
  const calendar = { interval, timeZone, weekStart };
  const present = await periodKeyAt(calendar, asOf);
  const { paymentStatuses } = filters;
  const totals = await reader.totals({ paymentStatuses });
  const source = totals.purchaseCount === 0n ? null : await reader.source(query);
  if (source === null || source.parts.length === 0) return { ...noCurrency, cohorts: [] };
  const { currency, mixedCurrencies } = totals;
  // Purchases without a currency may be all that cohorts count.
  const isUncertain =
    currency !== null &&
    (await reader.totals({ paymentStatuses, without: ['currency'] })).purchaseCount > 0n;
  const statement = cohortStatement(reader.dialect, source, query, isUncertain);
  const rows = await reader.query(statement);
  const cohorts = await assemble(rows, calendar, present, query.periods);
  if (cohorts.length === 0) return { ...noCurrency, cohorts };
  if (mixedCurrencies) return { ...(await readCurrencies(reader, source)), cohorts };
  const hasCurrency = !isUncertain || rows.some((row) => Number(row[6]) > 0);
  return { currency: hasCurrency ? currency : null, mixedCurrencies, cohorts };
}

async function readCurrencies(reader: CohortReader, source: CohortSource): Promise<Currencies> {
  const currencies = await reader.query(currencyStatement(reader.dialect, source));
  const [first, another] = currencies.map(([name]) => name as string);
  return {
    currency: another === undefined ? (first ?? null) : null,
    mixedCurrencies: another !== undefined,
  };
}

const noCurrency = { currency: null, mixedCurrencies: false };

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
  read: readonly (readonly unknown[])[],
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
 * column is the number of purchases with a currency if `countsCurrencies`.
 */
function cohortStatement(
  dialect: Dialect,
  source: CohortSource,
  { periods }: PurchaseCohortsQuery,
  countsCurrencies: boolean,
): Sql {
  const { period, group } = source;
  const later = raw(String(periods));
  const matchedPeriod = (name: string) => period.match?.(raw(name)) ?? raw(name);
  const matchedGroup = group?.match?.(raw('g')) ?? raw('g');
  const parts = source.parts.map((part) => {
    const signed = (name: string) => sql`${raw(String(part.sign))} * ${dialect.wide(raw(name))}`;
    return sql`
      select ${matchedPeriod('cohort')} as cohort, ${matchedGroup} as d,
        least(${matchedPeriod('period')} - ${matchedPeriod('cohort')}, ${later}) as age,
        ${signed('customers')} as customers, ${signed('purchases')} as purchases,
        ${signed('cents')} as cents, ${signed('with_currency')} as with_currency
      from (${byPeriod(dialect, source, part, countsCurrencies)}) as grouped`;
  });
  const shown = group?.shown?.(raw('report.d')) ?? { join: empty, value: raw('report.d') };
  const value = group === null ? sql`null` : shown.value;
  const order = group === null ? empty : sql`${dialect.inByteOrder(value)} asc nulls last,`;
  return sql`
    select cohort, ${value} as name, age, customers, purchases, cents, with_currency
    from (
      select cohort, d, age, sum(customers) as customers, sum(purchases) as purchases,
        sum(cents) as cents, sum(with_currency) as with_currency
      from (${join(parts, ' union all ')}) as part
      group by cohort, d, age
    ) as report
    ${group === null ? empty : shown.join}
    where purchases > 0
    order by cohort, ${order} age
    limit ${raw(String(maxCohorts * (periods + 1) + 1))}`;
}

/** Selects cohort, group, period, customers, purchases, cents and purchases with a currency of a part. */
function byPeriod(
  dialect: Dialect,
  source: CohortSource,
  part: CohortPart,
  countsCurrencies: boolean,
): Sql {
  const cents = dialect.sum(raw('cents'));
  const withCurrency = raw(
    countsCurrencies ? 'sum(case when has_currency then 1 else 0 end)' : '0',
  );
  if (part.isFirstInPeriod !== undefined) {
    return sql`
      select cohort, g, period, sum(case when is_first_in_period then 1 else 0 end) as customers,
        count(*) as purchases, ${cents} as cents, ${withCurrency} as with_currency
      ${wonPurchases(dialect, source, part)}
      group by cohort, g, period`;
  }
  return sql`
    select cohort, g, period, count(*) as customers, sum(purchases) as purchases,
      sum(cents) as cents, sum(with_currency) as with_currency
    from (
      select cohort, g, period, purchase.customer as customer, count(*) as purchases,
        ${cents} as cents, ${withCurrency} as with_currency
      ${wonPurchases(dialect, source, part)}
      group by cohort, g, period, purchase.customer
    ) as by_customer
    group by cohort, g, period`;
}

/** The names of up to two currencies of the purchases that cohorts count. */
function currencyStatement(dialect: Dialect, source: CohortSource): Sql {
  const { currency } = source;
  const parts = source.parts.map(
    (part) => sql`
      select purchase.currency as d, ${raw(String(part.sign))} * ${dialect.wide(sql`count(*)`)} as purchases
      ${wonPurchases(dialect, source, part)}
      group by purchase.currency`,
  );
  const { join: joined, value } = currency.shown?.(raw('report.d')) ?? {
    join: empty,
    value: raw('report.d'),
  };
  return sql`
    select ${value} as name
    from (
      select d, sum(purchases) as purchases from (${join(parts, ' union all ')}) as part group by d
    ) as report
    ${joined}
    where purchases > 0 and ${value} is not null
    limit 2`;
}

/** `from …`: purchases with the cohort and the group of their customers. */
function wonPurchases(
  { customer }: Dialect,
  { isWon, period, group, currency, hasCurrency }: CohortSource,
  { purchases, condition, isFirstInPeriod }: CohortPart,
): Sql {
  const rows = (wanted: Sql, columns: Sql) =>
    sql`(select ${raw(customer)} as customer, ${columns} from ${purchases} where ${condition} ${wanted})`;
  const first = sql`${period.key} as cohort, ${group?.key ?? sql`0`} as g`;
  const each = sql`${period.key} as period, purchase_value_in_cents as cents, ${currency.key} as currency,
    ${hasCurrency} as has_currency, ${isFirstInPeriod ?? sql`false`} as is_first_in_period`;
  return sql`
    from ${rows(empty, each)} as purchase
    join ${rows(sql`and is_first and ${isWon}`, first)} as won on won.customer = purchase.customer`;
}
