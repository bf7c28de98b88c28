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
 * Digests of what decides, beside the logged changes, which rows the views have: their definitions, the
 * tables that they read with partitions and file nodes, the functions and enums that they use, mapping_sources,
 * and the triggers. After TRUNCATE, ATTACH, DETACH, a changed view or function, a renamed label or a disabled
 * trigger they differ, also if that is reverted: the transaction of a row of the catalog is another one. Postgres
 * does not know what a function with a body as text uses.
 */
export async function readStructure(connection: Connection): Promise<string> {
  const { rows } = await connection.query<{ structure: string }>({
    name: 'read-mapping-structure',
    text: `with recursive used (class, oid) as (
       select 'pg_class'::regclass::oid, oid::oid
       from unnest(array[to_regclass('mapped_customers'), to_regclass('mapped_purchases')]) as oid
       union
       select next.* from used, lateral (
         select refclassid, refobjid from pg_depend
         where pg_depend.classid = used.class and pg_depend.objid = used.oid and refclassid in
           ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_operator'::regclass)
         union all
         select 'pg_rewrite'::regclass, pg_rewrite.oid from pg_rewrite
         where used.class = 'pg_class'::regclass and ev_class = used.oid
         union all
         select 'pg_class'::regclass, inhrelid from pg_inherits
         where used.class = 'pg_class'::regclass and inhparent = used.oid
       ) as next
     ), relations as (
       select oid from used where class = 'pg_class'::regclass
     )
     select string_agg(part || ':' || md5(coalesce(content, '')), ' ' order by part) as structure from (values
       ('views', (select string_agg(concat_ws(' ', pg_class.oid,
          (select max(pg_rewrite.xmin::text) from pg_rewrite where ev_class = pg_class.oid)), ' '
          order by pg_class.oid)
        from relations join pg_class using (oid) where relkind = 'v')),
       ('tables', (select string_agg(concat_ws(' ', pg_class.oid, relfilenode), ' ' order by pg_class.oid)
        from relations join pg_class using (oid) where relkind <> 'v')),
       ('partitions', (select string_agg(concat_ws(' ', inhrelid, inhparent, pg_inherits.xmin), ' ' order by inhrelid, inhparent)
        from relations join pg_inherits on inhparent = relations.oid)),
       ('triggers', (select string_agg(concat_ws(' ', tgrelid, tgname, tgenabled, pg_trigger.xmin), ' ' order by tgrelid, tgname)
        from relations join pg_trigger on tgrelid = relations.oid where tgname = any ($1))),
       ('functions', (select string_agg(concat_ws(' ', pg_proc.oid, pg_proc.xmin), ' ' order by pg_proc.oid)
        from used join pg_proc using (oid) where class = 'pg_proc'::regclass)),
       ('enums', (select string_agg(concat_ws(' ', pg_enum.oid, pg_enum.xmin), ' ' order by pg_enum.oid)
        from used join pg_enum on enumtypid = used.oid where class = 'pg_type'::regclass)),
       ('sources', (select string_agg(concat_ws(' ', view, to_regclass(source)::oid, key), ' ' order by view, source, key)
        from mapping_sources))
     ) as parts (part, content)`,
    values: [Object.values(triggerNames)],
  });
  return rows[0]?.structure ?? '';
}

const changes: Readonly<Record<string, string>> = {
  views: 'a changed view',
  tables: 'TRUNCATE or a rewritten table',
  partitions: 'changed partitions',
  triggers: 'missing or changed triggers',
  functions: 'a replaced function',
  enums: 'a changed enum',
  sources: 'changed mapping_sources',
};

/** What differs between two structures, as text. */
export function describeChange(before: string, after: string): string {
  const known = new Set(before.split(' '));
  const changed = after.split(' ').filter((part) => !known.has(part));
  return changed.map((part) => changes[part.split(':')[0] ?? '']).join(', ');
}
