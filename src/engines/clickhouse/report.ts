import sql, { raw, type Sql } from 'sql-template-tag';
import {
  type LocalCalendar,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import { purchaseLabels } from '../../domain/purchase.ts';
import { labelOfDimension, type PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  optionalAmounts,
  type PurchaseCohorts,
  type PurchaseCohortsQuery,
  type PurchaseReport,
  type PurchaseReportQuery,
} from '../../domain/purchase-report.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { type CohortReader, purchaseCohorts as cohorts } from '../report/cohorts.ts';
import { type DimensionSource, dimensionOf, needsFirsts } from '../report/dimensions.ts';
import { purchaseReport as report } from '../report/report.ts';
import type { ReportReader, SideQuery } from '../report/report-reader.ts';
import type { Dialect, DimensionSql, Side } from '../report/statement.ts';
import type { ClickHouse } from './client.ts';
import type { LoadGeneration } from './generation.ts';
import { currentLoadPurchases, matching } from './relations.ts';
import { localUnits, purchaseStats, readTimeBounds, readWideBounds } from './stats.ts';
import { periodKey } from './time-series.ts';

const dialect: Dialect = {
  customer: 'customer_id',
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
  const reader: ReportReader = {
    dialect,
    totals: (filters) => purchaseStats(clickhouse, generation, { filters, groupLimit: 1 }, signal),
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
    side: (side) => sideOf(clickhouse, generation, side, signal),
    query: (statement) => clickhouse.query(statement, signal),
  };
  return report(reader, query, generation.asOf);
}

export async function purchaseCohorts(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  query: PurchaseCohortsQuery,
  signal: AbortSignal | undefined,
): Promise<PurchaseCohorts> {
  const { filters, interval, groupBy, timeZone, weekStart } = query;
  const { paymentStatuses, ...others } = filters;
  const ofAll = { filters: { paymentStatuses }, timeZone, weekStart };
  const reader: CohortReader = {
    dialect,
    totals: (filters) => purchaseStats(clickhouse, generation, { filters, groupLimit: 1 }, signal),
    source: async () => ({
      parts: [
        { sign: 1, purchases: withFirsts(generation, { paymentStatuses }), condition: raw('true') },
      ],
      isWon: matching(others),
      period: await dimensionsOf(clickhouse, generation, ofAll, signal).period(interval),
      group: groupBy === undefined ? null : label(labelOfDimension(groupBy)),
      currency: label('currency'),
      hasCurrency: raw('currency is not null'),
    }),
    query: (statement) => clickhouse.query(statement, signal),
  };
  return cohorts(reader, query, generation.asOf);
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
  const { filters } = side;
  const source = dimensionsOf(clickhouse, generation, side, signal);
  const dimensions = await Promise.all(
    side.dimensions.map((dimension) => dimensionOf(source, dimension, side)),
  );
  const purchases = needsFirsts(side)
    ? withFirsts(generation, filters)
    : sql`(${currentLoadPurchases(generation, filters, columns)}) as purchase`;
  return { dimensions, parts: [{ sign: 1, purchases, condition: raw('true') }] };
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
