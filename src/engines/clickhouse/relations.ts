import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { conditionsOf, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { filterConditions } from '../filter-conditions.ts';
import { couponConditions } from './coupons.ts';
import { localUnits } from './local-units.ts';
import { table } from './schema.ts';

/** The batches of a writer up to the tick `last`. */
export type WriterBatches = { readonly writer: string; readonly last: bigint };

/**
 * The rows of an organization: one load, and later changes. The rows of a load and of a batch never
 * change, so queries of one generation agree.
 */
export type GenerationRows = {
  readonly organizationId: bigint;
  /** Of this organization alone. */
  readonly loadId: string;
  /** Empty if there are no changes. */
  readonly writers: readonly WriterBatches[];
};

/** Ids as one bound value. */
export const listOfIds = (ids: Iterable<bigint>): Sql =>
  sql`cast(${`[${[...ids].join()}]`}, 'Array(Int64)')`;

export const hasChanges = ({ writers }: GenerationRows): boolean => writers.length > 0;

const conditions = filterConditions({
  instant: (instant) => sql`${instant}`,
  localUnits,
  coupons: couponConditions,
});

export const matching = (filters: PurchaseFilters): Sql =>
  join([raw('true'), ...conditionsOf(filters, conditions)], ' and ');

/** A table and a condition. */
type Rows = { readonly purchases: Sql; readonly condition: Sql };

/** The matching rows of the load. */
export const loadOf = ({ loadId }: GenerationRows, filters: PurchaseFilters): Rows => ({
  purchases: table.purchase,
  condition: sql`load_id = ${loadId} and ${matching(filters)}`,
});

const from = ({ purchases, condition }: Rows): Sql => sql`from ${purchases} where ${condition}`;

/** `from … where …`: the matching rows of the load. A condition may follow with `and`. */
export const inBase = (generation: GenerationRows, filters: PurchaseFilters): Sql =>
  from(loadOf(generation, filters));

/** A condition on `purchase_change`: the rows of these batches. */
export const isOfWriters = (writers: readonly WriterBatches[]): Sql =>
  writers.length === 0
    ? raw('false')
    : sql`(${join(
        writers.map(({ writer, last }) => sql`(writer = ${writer} and tick <= ${last})`),
        ' or ',
      )})`;

/** The matching rows of the changes, with their sign. */
export const changesOf = (
  { organizationId, loadId, writers }: GenerationRows,
  filters: PurchaseFilters,
): Rows => ({
  purchases: table.purchase_change,
  condition: sql`
    organization_id = ${organizationId} and load_id = ${loadId} and ${isOfWriters(writers)}
      and sign <> 0 and ${matching(filters)}`,
});

/** `from … where …`: the matching rows of the changes. A condition may follow with `and`. */
export const inChanges = (generation: GenerationRows, filters: PurchaseFilters): Sql =>
  from(changesOf(generation, filters));

/**
 * A query of the matching purchases: rows of the load that did not change, and the last row of each
 * purchase that did. `condition` narrows both parts, and `clauses` apply to each and to the whole.
 * A change has the complete row that it replaces, so the changes of matching rows are enough.
 */
export function currentLoadPurchases(
  generation: GenerationRows,
  filters: PurchaseFilters,
  columns: Sql,
  { condition = empty, clauses = empty }: { readonly condition?: Sql; readonly clauses?: Sql } = {},
): Sql {
  const base = sql`${inBase(generation, filters)} ${condition}`;
  if (!hasChanges(generation)) return sql`select ${columns} ${base} ${clauses}`;
  const changes = sql`${inChanges(generation, filters)} ${condition}`;
  return sql`
    select * from (
      select * from (
        select ${columns} ${base} and id not in (select id ${changes} and sign < 0) ${clauses}
      )
      union all
      select * from (
        select ${columns} ${changes} and sign > 0
          and (id, tick) in (select id, max(tick) ${changes} group by id)
        ${clauses}
      )
    )
    ${clauses}`;
}
