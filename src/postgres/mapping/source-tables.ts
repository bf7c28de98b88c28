import type { Connection, Database } from '../connection/pool.ts';
import type { MappingSource } from './mapping-definition.ts';
import { triggerNames } from './structure.ts';

/** A table of the shop: a source, or a partition or child of one. */
export type SourceTable = {
  readonly oid: string;
  /** With its schema, quoted. */
  readonly name: string;
  /** The table that mapping_sources names, and what it says of it. */
  readonly root: string;
  readonly keys: readonly Pick<MappingSource, 'view' | 'key'>[];
  /** Columns of the root whose text no setting of a session changes. */
  readonly plainColumns: readonly string[];
  /** `p` for a partitioned table. */
  readonly kind: string;
  /** Whether they are enabled, by name. */
  readonly triggers: Readonly<Record<string, boolean>>;
  readonly isOwned: boolean;
  /** Names, quoted. */
  readonly owner: string;
  readonly schema: string;
  /** Whether the role may create triggers. */
  readonly canTrigger: boolean;
};

/** The tables of the sources that exist, with their partitions and children. */
export async function readSourceTables(connection: Connection | Database): Promise<SourceTable[]> {
  const { rows } = await connection.query<SourceTable>(
    `with recursive roots as (
       select to_regclass(source)::oid as root,
         json_agg(json_build_object('view', view, 'key', key) order by view, key) as keys
       from mapping_sources where to_regclass(source) is not null group by 1
     ), tables (oid, root) as (
       select root, root from roots
       union
       select inhrelid, root from pg_inherits join tables on inhparent = tables.oid
     )
     select pg_class.oid::text as oid, quote_ident(nspname) || '.' || quote_ident(relname) as name,
       (select quote_ident(nspname) || '.' || quote_ident(relname)
        from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where pg_class.oid = root) as root, roots.keys, relkind as kind,
       array(
         select attname::text from pg_attribute join pg_type on pg_type.oid = atttypid
         where attrelid = root and attnum > 0 and not attisdropped
           and (typtype = 'e' or coalesce(nullif(typbasetype, 0), pg_type.oid) = any (
             '{int2,int4,int8,numeric,text,varchar,bpchar,name,uuid,bool,inet,macaddr}'::regtype[]))
       ) as "plainColumns",
       coalesce((
         select json_object_agg(tgname, tgenabled in ('O', 'A') or (tgname = $2 and tgenabled = 'R'))
         from pg_trigger where tgrelid = pg_class.oid and tgname = any ($1)), '{}') as triggers,
       pg_has_role(relowner, 'usage') as "isOwned", quote_ident(pg_get_userbyid(relowner)) as owner,
       quote_ident(nspname) as schema, has_table_privilege(pg_class.oid, 'trigger') as "canTrigger"
     from tables join roots using (root) join pg_class using (oid)
       join pg_namespace on pg_namespace.oid = relnamespace
     order by root, (tables.oid = root) desc, name`,
    [Object.values(triggerNames), triggerNames.replica],
  );
  return rows;
}

/** The tables of mapping_sources that do not exist, as after they were renamed. */
export async function readMissingSources(database: Database): Promise<string[]> {
  const { rows } = await database.query<{ source: string }>(
    'select distinct source from mapping_sources where to_regclass(source) is null order by 1',
  );
  return rows.map(({ source }) => source);
}
