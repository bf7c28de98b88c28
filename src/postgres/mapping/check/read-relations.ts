import type { Connection } from '../../connection/pool.ts';
import { type MappedView, mappedViews } from '../mapping-definition.ts';

/** A relation that a view reads, itself or through other views. */
export type ReadRelation = {
  readonly view: MappedView;
  readonly oid: string;
  /** With its schema, quoted. */
  readonly name: string;
  /** As in pg_class: `r` for a table, `p` for a partitioned table. */
  readonly kind: string;
  /** The first column of its primary key, quoted. */
  readonly key: string | null;
  /** Whether it is the service's table of organizations. */
  readonly isOrganizations: boolean;
};

/** The relations that the views read, in the order of their names. Functions of the views are not known. */
export async function readRelations(connection: Connection): Promise<ReadRelation[]> {
  const { rows } = await connection.query<ReadRelation>(
    `with recursive relations (view, oid) as (
       select view, to_regclass(view)::oid from unnest($1::text[]) as view
       union
       select view, refobjid
       from relations join pg_rewrite on ev_class = relations.oid
         join pg_depend on classid = 'pg_rewrite'::regclass and objid = pg_rewrite.oid
           and refclassid = 'pg_class'::regclass
     )
     select view, pg_class.oid::text as oid,
       quote_ident(nspname) || '.' || quote_ident(relname) as name, relkind as kind,
       (select quote_ident(attname) from pg_index join pg_attribute
          on attrelid = indrelid and attnum = indkey[0]
        where indrelid = pg_class.oid and indisprimary) as key,
       pg_class.oid = 'organizations'::regclass as "isOrganizations"
     from relations join pg_class using (oid) join pg_namespace on pg_namespace.oid = relnamespace
     where pg_class.oid is distinct from to_regclass(view)::oid
     order by view, name`,
    [mappedViews],
  );
  return rows;
}

export const isTable = ({ kind }: { readonly kind: string }): boolean => /^[rp]$/.test(kind);
