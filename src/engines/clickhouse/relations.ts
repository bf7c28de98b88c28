import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { conditionsOf, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { filterConditions } from '../filter-conditions.ts';

/**
 * What a generation shows: the rows of one load, and changes. The rows of a load and of a batch
 * never change, so queries of one generation agree.
 */
export type Generation = {
  readonly organizationId: bigint;
  /** Numbers of an organization ascend. */
  readonly number: bigint;
  readonly loadId: string;
  /** The last batch of each writer. */
  readonly batches: readonly { readonly writer: string; readonly last: bigint }[];
  readonly asOf: bigint;
  readonly source: string;
};

/** The rows of a generation. */
export type GenerationRows = Pick<Generation, 'organizationId' | 'loadId' | 'batches'>;

export const hasChanges = ({ batches }: GenerationRows): boolean => batches.length > 0;

const conditions = filterConditions((instant) => sql`${instant}`);

const matching = (filters: PurchaseFilters): Sql =>
  join([raw('true'), ...conditionsOf(filters, conditions)], ' and ');

/** `from … where …`: the matching rows of the load. A condition may follow with `and`. */
export const inBase = ({ organizationId, loadId }: GenerationRows, filters: PurchaseFilters): Sql =>
  sql`from purchase
    where organization_id = ${organizationId} and load_id = ${loadId} and ${matching(filters)}`;

/** `from … where …`: the matching rows of the changes, with their sign. */
export const inChanges = (
  { organizationId, loadId, batches }: GenerationRows,
  filters: PurchaseFilters,
): Sql => {
  const written = batches.map(({ writer, last }) => sql`(writer = ${writer} and batch <= ${last})`);
  return sql`from purchase_change
    where organization_id = ${organizationId} and load_id = ${loadId}
      and (${join(written, ' or ')}) and ${matching(filters)}`;
};

/**
 * A query of the matching purchases: rows of the load that did not change, and the last row of each
 * purchase that did. `condition` narrows both parts, and `clauses` apply to each and to the whole.
 */
export function currentPurchases(
  generation: Generation,
  filters: PurchaseFilters,
  columns: Sql,
  { condition = empty, clauses = empty }: { readonly condition?: Sql; readonly clauses?: Sql } = {},
): Sql {
  const base = inBase(generation, filters);
  if (!hasChanges(generation)) return sql`select ${columns} ${base} ${condition} ${clauses}`;
  const changes = inChanges(generation, {});
  return sql`
    select * from (
      select * from (
        select ${columns} ${base} ${condition} and id not in (select id ${changes}) ${clauses}
      )
      union all
      select * from (
        select ${columns} ${inChanges(generation, filters)} ${condition} and sign > 0
          and (id, batch) in (select id, max(batch) ${changes} group by id)
        ${clauses}
      )
    )
    ${clauses}`;
}

/**
 * A subquery with the number and the revenue of matching purchases by `keys`: rows of the load
 * count once, changes by their sign.
 */
export function groupedPurchases(
  generation: Generation,
  filters: PurchaseFilters,
  keys: Readonly<Record<string, Sql>>,
): Sql {
  const names = raw(Object.keys(keys).join(', '));
  const columns = join(Object.entries(keys).map(([name, key]) => sql`${key} as ${raw(name)}`));
  const value = raw('toInt128(purchase_value_in_cents)');
  const base = sql`
    select ${columns}, toInt64(count()) as purchase_count, sum(${value}) as revenue
    ${inBase(generation, filters)} group by ${names}`;
  if (!hasChanges(generation)) return sql`(${base})`;
  return sql`(
    select ${names}, sum(purchases) as purchase_count, sum(cents) as revenue
    from (
      select ${names}, purchase_count as purchases, revenue as cents from (${base})
      union all
      select ${columns}, sum(toInt64(sign)) as purchases, sum(sign * ${value}) as cents
      ${inChanges(generation, filters)} group by ${names}
    )
    group by ${names} having purchase_count > 0)`;
}

/**
 * A subquery with the number of customers by `keys`. A customer counts who has a matching purchase
 * in the load or, by the sum of signs, in the changes. Customers of the load whose matching
 * purchases have all changed to others are subtracted.
 */
export function countedCustomers(
  generation: Generation,
  filters: PurchaseFilters,
  keys: Readonly<Record<string, Sql>> = {},
): Sql {
  const entries = Object.entries(keys);
  const columns = join([
    raw('customer_id'),
    ...entries.map(([name, key]) => sql`${key} as ${raw(name)}`),
  ]);
  const names = raw(['customer_id', ...Object.keys(keys)].join(', '));
  const groups = Object.keys(keys).join(', ');
  const groupBy = groups === '' ? empty : raw(`group by ${groups}`);
  const prefix = raw(groups === '' ? '' : `${groups},`);
  if (!hasChanges(generation)) {
    return sql`(
      select ${prefix} toInt64(uniqExact(customer_id)) as customers
      from (select ${columns} ${inBase(generation, filters)}) ${groupBy})`;
  }
  const changed = (sign: string) => sql`
    select ${names}, sum(toInt64(sign)) as changed
    from (select ${columns}, sign ${inChanges(generation, filters)})
    group by ${names} having changed ${raw(sign)} 0`;
  return sql`(
    select ${prefix} sum(counted) as customers
    from (
      select ${prefix} toInt64(uniqExact(customer_id)) as counted
      from (
        select ${columns} ${inBase(generation, filters)}
        union all
        select ${names} from (${changed('>')})
      ) ${groupBy}
      union all
      select ${prefix} -toInt64(count()) as counted
      from (
        select ${names}, sum(purchases) as remaining, sum(toInt64(purchases > 0)) as isLoaded
        from (
          select ${names}, toInt64(count()) as purchases
          from (
            select ${columns} ${inBase(generation, filters)}
              and customer_id in (select customer_id from (${changed('<')}))
          )
          group by ${names}
          union all
          select ${names}, changed as purchases from (${changed('<')})
        )
        group by ${names}
      )
      where isLoaded > 0 and remaining = 0
      ${groupBy}
    )
    ${groupBy})`;
}
