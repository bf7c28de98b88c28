import sql, { raw, type Sql } from 'sql-template-tag';
import {
  type LocalCalendar,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import { purchaseLabels } from '../../domain/purchase.ts';
import {
  type LabelDimension,
  labelOfDimension,
  type PurchaseFilters,
} from '../../domain/purchase-query.ts';
import {
  optionalAmounts,
  type PurchaseCohorts,
  type PurchaseCohortsQuery,
  type PurchaseReport,
  type PurchaseReportQuery,
} from '../../domain/purchase-report.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { isAnyOfTexts } from '../filter-conditions.ts';
import { purchaseCohorts as cohorts } from '../report/cohorts.ts';
import { type DimensionSource, dimensionOf, needsFirsts } from '../report/dimensions.ts';
import { purchaseReport as report } from '../report/report.ts';
import type { ReportSource, SideQuery } from '../report/source.ts';
import {
  addsUp,
  type Dialect,
  type DimensionSql,
  type Part,
  readsStatement,
  type Side,
} from '../report/statement.ts';
import type { ClickHouse } from './client.ts';
import type { LoadGeneration } from './generation.ts';
import { localUnits, periodKey, readTimeBounds, readWideBounds } from './periods.ts';
import { changesOf, currentLoadPurchases, hasChanges, loadOf, matching } from './relations.ts';

const dialect: Dialect = {
  customer: 'customer_id',
  count: raw('toInt64(count())'),
  wide: (integer) => sql`toInt128(${integer})`,
  sum: (column) => sql`sum(toInt128(${column}))`,
  quotient: (dividend, divisor) => sql`intDiv(${dividend}, ${divisor})`,
  inByteOrder: (text) => text,
};

export async function purchaseReport(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  query: PurchaseReportQuery,
  signal: AbortSignal | undefined,
): Promise<PurchaseReport> {
  const source: ReportSource = {
    dialect,
    bounds: (filters) => readWideBounds(clickhouse, generation, filters, signal),
    range: async (calendar, filters) => {
      const bounds = await readTimeBounds(clickhouse, generation, filters, signal);
      return (
        bounds && {
          first: await periodKeyAt(calendar, bounds.first),
          last: await periodKeyAt(calendar, bounds.last),
        }
      );
    },
    hasFewGroups: () => false,
    requireFewGroups: () => {},
    side: (side) => sideOf(clickhouse, generation, side, signal),
    currencies: async (count) => currencies(generation, count),
    readAll: (reads) => clickhouse.query(readsStatement(dialect, reads), signal),
    query: (statement) => clickhouse.query(statement, signal),
  };
  return report(source, query, generation.asOf);
}

/** Reading currencies took an eighth of the time for ten million purchases. */
const currencies = ({ currency, withoutCurrency }: LoadGeneration, count: bigint) =>
  currency === null || count <= withoutCurrency ? undefined : { currency, mixedCurrencies: false };

export async function purchaseCohorts(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  query: PurchaseCohortsQuery,
  signal: AbortSignal | undefined,
): Promise<PurchaseCohorts> {
  const { filters, interval, groupBy, timeZone, weekStart } = query;
  const { paymentStatuses, ...others } = filters;
  const ofAll = { filters: { paymentStatuses }, timeZone, weekStart };
  const source = {
    dialect,
    currencies: async () => undefined,
    purchases: async () => ({
      parts: [
        {
          purchases: withFirsts(generation, { paymentStatuses }),
          condition: raw('true'),
          isFirst: raw('is_first'),
        },
      ],
      isWon: matching(others),
      period: await dimensionsOf(clickhouse, generation, ofAll, signal).period(interval),
      group: groupBy === undefined ? null : label(labelOfDimension(groupBy)),
      currency: label('currency'),
    }),
    query: (statement: Sql) => clickhouse.query(statement, signal),
  };
  return cohorts(source, query, generation.asOf);
}

const label = (name: string): DimensionSql => ({ key: raw(name), isText: true });

function dimensionsOf(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  { filters, timeZone, weekStart }: LocalCalendar & Pick<SideQuery, 'filters'>,
  signal: AbortSignal | undefined,
): DimensionSource {
  const offsetsOf = async (calendar: PeriodCalendar): Promise<readonly ZoneOffset[]> => {
    const bounds = await readWideBounds(clickhouse, generation, filters, signal);
    return bounds === null ? [] : periodOffsets(calendar, bounds.first, bounds.last);
  };
  return {
    period: async (interval) => ({
      key: periodKey(interval, await offsetsOf({ interval, timeZone, weekStart })),
    }),
    localUnits: async (unit) => localUnits(await offsetsOf({ interval: 'day', timeZone }), unit),
    label,
    quotient: dialect.quotient,
    customer: { key: raw('customer_id') },
  };
}

async function sideOf(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  side: SideQuery,
  signal: AbortSignal | undefined,
): Promise<Side> {
  const source = dimensionsOf(clickhouse, generation, side, signal);
  const dimensions = await Promise.all(
    side.dimensions.map((dimension) => dimensionOf(source, dimension, side)),
  );
  const isWanted =
    side.only === undefined
      ? raw('true')
      : isAnyOfTexts(labelOfDimension(side.dimensions[0] as LabelDimension), side.only);
  return {
    dimensions,
    parts: partsOf(generation, side).map((part) => ({
      ...part,
      condition: sql`${part.condition} and ${isWanted}`,
    })),
  };
}

/** Changes are rows with a sign, if all sums add up. */
function partsOf(generation: LoadGeneration, side: SideQuery): Part[] {
  const { filters, sums } = side;
  if (needsFirsts(side)) {
    const purchases = withFirsts(generation, filters);
    return [{ purchases, condition: raw('true'), isFirst: raw('is_first') }];
  }
  if (sums.every(addsUp)) {
    const load = loadOf(generation, filters);
    return hasChanges(generation)
      ? [load, { ...changesOf(generation, filters), isSigned: true }]
      : [load];
  }
  const current = currentLoadPurchases(generation, filters, columns);
  return [{ purchases: sql`(${current}) as purchase`, condition: raw('true') }];
}

/** The columns of dimensions and measures. */
const columns = raw(
  [
    'id',
    'customer_id',
    'created_at',
    'purchase_value_in_cents',
    ...purchaseLabels,
    ...optionalAmounts,
  ].join(', '),
);

/** Matching purchases with `is_first`: the customer's first one with the payment statuses of the filters. */
function withFirsts(generation: LoadGeneration, filters: PurchaseFilters): Sql {
  const { paymentStatuses } = filters;
  const candidates = currentLoadPurchases(
    generation,
    { paymentStatuses },
    raw('id, customer_id, created_at'),
  );
  return sql`(
    select *, id in (
      select argMin(id, (created_at, id)) from (${candidates}) group by customer_id
    ) as is_first
    from (${currentLoadPurchases(generation, filters, columns)})
  ) as purchase`;
}
