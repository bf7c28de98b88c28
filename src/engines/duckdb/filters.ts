import type { DuckDBConnection } from '@duckdb/node-api';
import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { intervalLengths } from '../../domain/period.ts';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import {
  conditionsOf,
  type LabelDimension,
  labelOfDimension,
  type PurchaseFilters,
  readsCoupons,
  textFilters,
} from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { labelKey, noLabel } from '../../purchase-store/format/layout.ts';
import { filterConditions, isAnyOf } from '../filter-conditions.ts';
import { localUnits } from './calendar/local-time.ts';
import { couponConditions } from './coupons.ts';
import type { LabelCache, WantedValues } from './serving/label-cache.ts';

/**
 * The condition of matching purchases, for lists and statistics. Null if no value of a filter is in
 * a dictionary: then no purchase matches, and the query needs no scan.
 */
export async function purchasesMatching(
  connection: DuckDBConnection,
  labels: Pick<LabelCache, 'findKeys'>,
  filters: PurchaseFilters,
): Promise<Sql | null> {
  const filtered = labelsIn(filters);
  const keys = await labels.findKeys(connection, filtered);
  if (keys.size < filtered.size) return null;
  const excluded = await labels.findKeys(connection, excludedBy(filters));
  const ofKeys = {
    hasAnyOf: (label: PurchaseLabel) =>
      isAnyOf(raw(labelKey(label)), keys.get(label)?.map((key) => sql`${key}::integer`) ?? []),
    // A missing value has a key too.
    hasNoneOf(label: PurchaseLabel) {
      const found = excluded.get(label);
      return found === undefined
        ? sql`true`
        : sql`${raw(labelKey(label))} not in (${raw(found.join())})`;
    },
    hasNone: (label: PurchaseLabel) => raw(`${labelKey(label)} = ${noLabel}`),
  };
  const instant = (microseconds: bigint) => sql`${new DuckDBTimestampValue(microseconds)}`;
  const conditions = conditionsOf(
    filters,
    filterConditions({ instant, localUnits: unitsOf, coupons: couponConditions, labels: ofKeys }),
  );
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ');
}

/** Conditions of rows. */
export type RowConditions = {
  readonly matching: Sql;
  /** Of superseded rows. The same one, if these have its columns. */
  readonly ofSuperseded: Sql;
};

export function narrowed({ matching, ofSuperseded }: RowConditions, condition: Sql): RowConditions {
  const narrow = (rows: Sql) => sql`${rows} and ${condition}`;
  const both = narrow(matching);
  return { matching: both, ofSuperseded: ofSuperseded === matching ? both : narrow(ofSuperseded) };
}

/**
 * The condition of matching purchases, and one that superseded rows meet if their purchases match: these rows lack
 * coupons. Null as for `purchasesMatching`.
 */
export async function rowsMatching(
  connection: DuckDBConnection,
  labels: Pick<LabelCache, 'findKeys'>,
  filters: PurchaseFilters,
): Promise<RowConditions | null> {
  const matching = await purchasesMatching(connection, labels, filters);
  if (matching === null || !readsCoupons(filters)) {
    return matching && { matching, ofSuperseded: matching };
  }
  const { coupon: _, without, not: { coupon: __, ...not } = {}, ...others } = filters;
  const ofLabels = without?.filter((dimension) => dimension !== 'coupon') ?? [];
  const known = {
    ...others,
    without: ofLabels.length === 0 ? undefined : ofLabels,
    not: Object.keys(not).length === 0 ? undefined : not,
  };
  const ofSuperseded = (await purchasesMatching(connection, labels, known)) ?? matching;
  return { matching, ofSuperseded };
}

const unitsOf = (offsets: readonly ZoneOffset[], unit: 'day' | 'hour'): Sql =>
  localUnits(offsets, intervalLengths[unit]);

function excludedBy({ not = {} }: PurchaseFilters): WantedValues {
  const { coupon: _, ...excluded } = not;
  return new Map(
    Object.entries(excluded).map(([name, values]) => [
      labelOfDimension(name as LabelDimension),
      values,
    ]),
  );
}

function labelsIn(filters: PurchaseFilters): WantedValues {
  const wanted = new Map<PurchaseLabel, readonly string[]>();
  if (filters.paymentStatuses !== undefined) wanted.set('payment_status', filters.paymentStatuses);
  if (filters.platforms !== undefined) wanted.set('platform', filters.platforms);
  for (const label of textFilters) {
    const values = filters[label];
    if (values !== undefined) wanted.set(label, values);
  }
  return wanted;
}
