import sql, { raw, type Sql } from 'sql-template-tag';
import { purchaseLabels } from '../../domain/purchase.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { optionalAmounts } from '../../domain/purchase-report.ts';
import { type PlainEngine, plainSource } from '../report/plain-source.ts';
import { addsUp, type Dialect } from '../report/statement.ts';
import type { ClickHouse } from './client.ts';
import { withCoupons } from './coupons.ts';
import type { LoadGeneration } from './generation.ts';
import { localUnits } from './local-units.ts';
import { periodKey, readTimeBounds, readWideBounds } from './periods.ts';
import { changesOf, currentLoadPurchases, hasChanges, loadOf, matching } from './relations.ts';

const dialect: Dialect = {
  customer: 'customer_id',
  count: raw('toInt64(count())'),
  wide: (integer) => sql`toInt128(${integer})`,
  sum: (column) => sql`sum(toInt128(${column}))`,
  // Of an even number of values, `quantileExact` takes the greater one: so it counts from the greatest down.
  quantile: (column, tenths) =>
    sql`bitNot(quantileExactOrNull(${raw(`0.${10 - tenths}`)})(bitNot(${column})))`,
  quotient: (dividend, divisor) => sql`intDiv(${dividend}, ${divisor})`,
  inByteOrder: (text) => text,
};

export const clickHouseSource = (
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  signal: AbortSignal | undefined,
) =>
  plainSource({
    dialect,
    query: (statement) => clickhouse.query(statement, signal),
    timeBounds: (filters) => readTimeBounds(clickhouse, generation, filters, signal),
    wideBounds: (filters) => readWideBounds(clickhouse, generation, filters, signal),
    periodKey,
    localUnits,
    matching,
    parts: (read) => partsOf(generation, read),
    withCoupons,
    currencies: (count) => currencies(generation, count),
  });

/** Reading currencies took an eighth of the time for ten million purchases. */
const currencies = ({ currency, withoutCurrency }: LoadGeneration, count: bigint) =>
  currency === null || count <= withoutCurrency ? undefined : { currency, mixedCurrencies: false };

/** Changes are rows with a sign, if all sums add up. */
const partsOf = (
  generation: LoadGeneration,
  { filters, sums, firsts }: Parameters<PlainEngine['parts']>[0],
): ReturnType<PlainEngine['parts']> => {
  if (firsts) {
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
};

/** The columns of dimensions and measures. */
const columns = raw(
  [
    'id',
    'customer_id',
    'created_at',
    'purchase_value_in_cents',
    'coupons',
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
