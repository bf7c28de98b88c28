import { type DuckDBConnection, listValue } from '@duckdb/node-api';
import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import { type DuckDBRow, queryRows } from '../../../duckdb/connection.ts';
import { countedColumns } from '../../../purchase-store/format/layout.ts';
import type { StoreCatalogs } from '../../../purchase-store/format/relations.ts';
import type { PurchasePart } from '../../report/statement.ts';
import type { Reading } from '../query-context.ts';
import type { ChangedFirsts, Generation } from '../serving/generation.ts';

/** Conditions on purchases, as SQL. */
type Conditions = {
  /** The purchases among which a first one is found. */
  readonly counted: Sql;
  /** The purchase is the first one in the base. */
  readonly isFirst: Sql;
};

/** All present purchases: those that the base tells to be first ones, but for the ones that differ. */
export async function presentWithFirsts(
  { connection, generation }: Reading,
  filters: PurchaseFilters,
  conditions: Conditions,
): Promise<Required<Pick<PurchasePart, 'purchases' | 'isFirst'>>> {
  const { base, delta } = generation.catalogs;
  const { added, gained, lost } = await firstsOfVersion(
    connection,
    generation,
    filters,
    conditions,
  );
  const columns = raw(countedColumns);
  const change = raw(`${delta}.change`);
  // Node's API of DuckDB takes no empty list.
  const listOf = (ids: readonly bigint[], values = empty) =>
    ids.length === 0 ? [] : [sql`select unnest(${listValue([...ids])}::bigint[])${values}`];
  const differing = [
    sql`select id, true as is_superseded, null::boolean as is_first_now from ${change} where sign < 0`,
    ...listOf(gained, sql`, false, true`),
    ...listOf(lost, sql`, false, false`),
  ];
  const [ofChanges = sql`null`] = listOf(added);
  return {
    isFirst: raw('is_first'),
    purchases: sql`(
      select ${columns}, coalesce(is_first_now, ${conditions.isFirst}) as is_first
      from ${raw(base)}.purchase
      left join (${join(differing, ' union all ')}) as differing using (id)
      where is_superseded is not true
      union all
      select ${columns}, (id in (${ofChanges})) is true from ${change} where sign > 0
    ) as purchase`,
  };
}

/** Those of a version are read once for each payment status of filters, and for any. */
async function firstsOfVersion(
  connection: DuckDBConnection,
  { catalogs, changedFirsts }: Generation,
  { paymentStatuses = [] }: PurchaseFilters,
  conditions: Conditions,
): Promise<ChangedFirsts> {
  const [status = ''] = paymentStatuses;
  const known = changedFirsts.get(status);
  if (known !== undefined) return known;
  const read = await readChangedFirsts(connection, catalogs, conditions);
  changedFirsts.set(status, read);
  return read;
}

/**
 * Most customers with changes keep the first purchase that the base tells. The first read finds the others:
 * without a counted purchase in the base, with a changed one before it, or with a first one that was superseded.
 * Only the last ones may need a read of their other purchases.
 */
async function readChangedFirsts(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  conditions: Conditions,
): Promise<ChangedFirsts> {
  const others = await queryRows(connection, othersThanInBase(catalogs, conditions));
  const unknown = valuesIn(others, 2);
  const found =
    unknown.length === 0
      ? []
      : await queryRows(connection, firstsOf(catalogs, conditions, unknown));
  return {
    added: [...valuesIn(others, 0), ...valuesIn(found, 0)],
    gained: valuesIn(found, 1),
    lost: valuesIn(others, 1),
  };
}

const valuesIn = (rows: readonly DuckDBRow[], column: number): bigint[] =>
  rows.flatMap((row) => (row[column] === null ? [] : [row[column] as bigint]));

/**
 * The place of a purchase in the order of creation, as one number: comparing structs of instant and id takes twice
 * as long.
 */
export const place: Sql = raw(`(epoch_us(created_at)::hugeint * ${2n ** 64n} + id)`);
export const idAt = (first: Sql): Sql => sql`(${first} & ${raw(String(2n ** 64n - 1n))})::bigint`;

/** Selects ids of `added` and of `lost`, and the keys of customers whose first purchases must be read. */
function othersThanInBase({ base, delta }: StoreCatalogs, { counted, isFirst }: Conditions): Sql {
  const change = raw(`${delta}.change`);
  return sql`
    select case when is_changed then ${idAt(raw('added_at'))} end,
      case when is_changed and not is_superseded then first end,
      case when not is_changed then customer_key::bigint end
    from (
      select customer_key, added_at, first, superseded.id is not null as is_superseded,
        first is null or coalesce(added_at <= first_at, false) as is_changed
      from (
        select customer_key, min(${place}) filter (sign > 0 and ${counted}) as added_at
        from ${change} where sign <> 0 group by customer_key
      ) as of_changes
      left join (
        select customer_key, id as first, ${place} as first_at
        from ${raw(base)}.purchase where ${isFirst} and ${counted}
      ) as of_base using (customer_key)
      left join (select id from ${change} where sign < 0) as superseded on superseded.id = first
    ) where is_changed or is_superseded`;
}

/** Selects ids of `added` and of `gained`. */
function firstsOf(
  { base, delta }: StoreCatalogs,
  { counted }: Conditions,
  customers: readonly bigint[],
): Sql {
  const change = raw(`${delta}.change`);
  const wanted = sql`
    semi join (select unnest(${listValue([...customers])}::bigint[])::integer as customer_key) as wanted using (customer_key)`;
  return sql`
    select added.id, case when added.id is null then ${idAt(raw('first_at'))} end
    from (
      select min(first_at) as first_at from (
        select customer_key, ${place} as first_at from ${raw(base)}.purchase ${wanted}
        anti join (select id from ${change} where sign < 0) as superseded using (id)
        where ${counted}
        union all
        select customer_key, ${place} from ${change} ${wanted} where sign > 0 and ${counted}
      ) as purchase group by customer_key
    ) as found
    left join (select id from ${change} where sign > 0) as added on added.id = ${idAt(raw('first_at'))}`;
}
