import sql, { raw, type Sql } from 'sql-template-tag';
import { purchaseColumns } from '../../../../src/domain/purchase.ts';
import { type Asked, matching } from './filters.ts';

/** A purchase, at the place that it has now or that it had. */
export type Position = { readonly id: bigint; readonly createdAt: string | null };

/** Public ids are written by the caller. */
const written: Partial<Record<string, (column: string) => string>> = {
  purchase_id: (column) => `'purchase:' || ${column}`,
  customer_id: (column) => `'customer:' || ${column}`,
  instant: (column) => `oracle.shown(${column})`,
};

const fields = purchaseColumns
  .map(({ name, kind }) => `'${name}', ${written[kind]?.(name) ?? name}`)
  .join(', ');

export const purchaseJson = sql`json_strip_nulls(json_build_object(
  'object', 'purchase', ${raw(fields)}, 'attributed_flow_ids', json_build_array()
))`;

export function page(asked: Asked, limit: number, after: Position | null): Sql {
  const place = sql`
    select coalesce(${after?.createdAt ?? null}::timestamptz, (
      select created_at from purchases where organization_id = ${asked.organization} and id = ${after?.id ?? 0n}
    ))`;
  const follows =
    after === null ? sql`true` : sql`(created_at, id) < ((${place}), ${after.id}::bigint)`;
  return sql`
    with page as (
      select *, row_number() over (order by created_at desc, id desc) as place
      from (${matching(asked)}) as matching where ${follows}
      order by place limit ${limit + 1}::integer
    )
    select json_build_object(
      'data', coalesce(json_agg(${purchaseJson} order by place) filter (where place <= ${limit}::integer), '[]'),
      'has_more', count(*) > ${limit}::integer
    )
    from page`;
}

export const purchase = (organization: bigint, id: bigint): Sql => sql`
  select ${purchaseJson} from purchases where organization_id = ${organization} and id = ${id}`;
