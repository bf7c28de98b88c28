import type { Connection } from '../connection/pool.ts';

/** The triggers that log changes of a shop's tables, by event. */
export const triggerNames = {
  insert: 'map_inserted',
  update: 'map_updated',
  delete: 'map_deleted',
  truncate: 'map_truncated',
  replica: 'map_replicated',
} as const;

/**
 * A digest of what decides, beside the logged changes, which rows the views have: their definitions, the
 * tables that they read with partitions and file nodes, mapping_sources, and the triggers. After TRUNCATE,
 * ATTACH, DETACH, a changed view or a disabled trigger it differs, also if that is reverted: the
 * transaction of a row of the catalog is another one.
 */
export async function readStructure(connection: Connection): Promise<string> {
  const { rows } = await connection.query<{ structure: string }>({
    name: 'read-mapping-structure',
    text: `with recursive relations (oid) as (
       select oid::oid from unnest(array[to_regclass('mapped_customers'), to_regclass('mapped_purchases')]) as oid
       union
       select next.oid from relations, lateral (
         select refobjid from pg_rewrite join pg_depend
           on classid = 'pg_rewrite'::regclass and objid = pg_rewrite.oid and refclassid = 'pg_class'::regclass
         where ev_class = relations.oid
         union all
         select inhrelid from pg_inherits where inhparent = relations.oid
       ) as next (oid)
     )
     select md5(concat_ws(' ',
       (select string_agg(concat_ws(' ', pg_class.oid, relfilenode,
          (select max(pg_rewrite.xmin::text) from pg_rewrite where ev_class = pg_class.oid)), ' '
          order by pg_class.oid)
        from relations join pg_class using (oid)),
       (select string_agg(concat_ws(' ', inhrelid, inhparent, pg_inherits.xmin), ' ' order by inhrelid, inhparent)
        from relations join pg_inherits on inhparent = relations.oid),
       (select string_agg(concat_ws(' ', tgrelid, tgname, tgenabled, pg_trigger.xmin), ' ' order by tgrelid, tgname)
        from relations join pg_trigger on tgrelid = relations.oid where tgname = any ($1)),
       (select string_agg(concat_ws(' ', view, to_regclass(source)::oid, key), ' ' order by view, source, key)
        from mapping_sources)
     )) as structure`,
    values: [Object.values(triggerNames)],
  });
  return rows[0]?.structure ?? '';
}
