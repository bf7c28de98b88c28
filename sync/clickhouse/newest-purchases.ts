import sql, { raw, type Sql } from 'sql-template-tag';
import { type GenerationRows, inBase, inChanges } from '../../src/engines/clickhouse/relations.ts';

/** The number of purchases, as an expression: sums over signed rows must lead to it. */
export const purchaseCount = (rows: GenerationRows): Sql =>
  sql`(select count() ${inBase(rows, {})}) + (select sum(toInt64(sign)) ${inChanges(rows, {})})`;

/**
 * A subquery: the purchases that match a condition on their columns. Unlike `currentLoadPurchases` of the
 * engine, the condition does not limit the superseded rows, because rows may be damaged.
 */
export const newestPurchases = (
  rows: GenerationRows,
  columns: Sql,
  condition: Sql = raw('true'),
): Sql => sql`(
  select ${columns} ${inBase(rows, {})} and (${condition})
    and id not in (select id ${inChanges(rows, {})})
  union all
  select ${columns} ${inChanges(rows, {})} and (${condition}) and sign > 0
    and (id, tick) in (select id, max(tick) ${inChanges(rows, {})} group by id))`;
