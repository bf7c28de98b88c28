import type { Connection, Database } from '../connection/pool.ts';
import type { Role } from './role-rights.ts';

/** What a role may do, also as a member of other roles and because every role may. */
export type RightsOfRole = {
  readonly role: Role;
  /** Quoted. */
  readonly name: string;
  readonly exists: boolean;
  /** Attributes of the role such as SUPERUSER, and roles of which it is a member. */
  readonly powers: readonly string[];
  readonly canUseSchema: boolean;
  readonly canCreate: boolean;
  /** Rights on relations of the schema by their name, and those of API and worker to write others. */
  readonly relations: Readonly<Record<string, readonly string[]>>;
};

export type FoundFunction = {
  readonly name: string;
  readonly owner: string;
  /** Roles other than the owner that may execute it. */
  readonly executors: readonly string[];
};

/** The names of roles in the database; of `public`, it is the same. */
export type RoleNames = Readonly<Record<Role, string>>;

export async function readRights(
  database: Database | Connection,
  names: RoleNames,
): Promise<RightsOfRole[]> {
  const { rows } = await database.query<RightsOfRole>(
    `with wanted as (
       select key as role, value::name as name, value = 'public' or oid is not null as is_found, pg_roles.*
       from json_each_text($1) left join pg_roles on rolname = value
     ), privileges (privilege) as (
       select unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'])
       union all select 'MAINTAIN' where current_setting('server_version_num')::int >= 170000
     ), relations as (
       select pg_class.oid, relkind, relnamespace = current_schema()::regnamespace as is_own,
         case when relnamespace = current_schema()::regnamespace then quote_ident(relname)
           else quote_ident(nspname) || '.' || quote_ident(relname) end as relation
       from pg_class join pg_namespace on pg_namespace.oid = relnamespace
       where relkind in ('r', 'p', 'v', 'm', 'f', 'S') and nspname !~ '^pg_' and nspname <> 'information_schema'
     ), held as (
       select wanted.name, relation, lower(privilege) as "right"
       from wanted, relations, privileges
       where is_found and relkind <> 'S' and has_table_privilege(wanted.name, relations.oid, privilege)
         and (is_own or role in ('api', 'worker') and privilege in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'))
       union all
       select wanted.name, relation, format('%s (%I)', lower(privilege), attname)
       from wanted, relations join pg_attribute on attrelid = relations.oid and attnum > 0 and not attisdropped,
         unnest(array['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) as privilege
       where is_found and relkind <> 'S' and is_own
         and has_column_privilege(wanted.name, relations.oid, attnum, privilege)
         and not has_table_privilege(wanted.name, relations.oid, privilege)
       union all
       select wanted.name, relation, lower(privilege)
       from wanted, relations, unnest(array['USAGE', 'SELECT', 'UPDATE']) as privilege
       where is_found and relkind = 'S' and is_own
         and has_sequence_privilege(wanted.name, relations.oid, privilege)
     )
     select role, quote_ident(name) as name, is_found as exists,
       array_remove(array[
         case when rolsuper then 'superuser' end, case when rolcreaterole then 'createrole' end,
         case when rolcreatedb then 'createdb' end, case when rolreplication then 'replication' end,
         case when rolbypassrls then 'bypassrls' end,
         case when is_found and has_database_privilege(wanted.name, current_database(), 'create')
           then format('create on database %I', current_database()) end
       ], null) || array(
         select 'member of ' || quote_ident(granted.rolname)
         from pg_auth_members join pg_roles as granted on granted.oid = roleid where member = wanted.oid
       ) as powers,
       is_found and has_schema_privilege(wanted.name, current_schema(), 'usage') as "canUseSchema",
       is_found and has_schema_privilege(wanted.name, current_schema(), 'create') as "canCreate",
       coalesce((
         select json_object_agg(relation, rights)
         from (select relation, array_agg("right") as rights from held where held.name = wanted.name group by 1)
           as of_relation), '{}') as relations
     from wanted`,
    [JSON.stringify(names)],
  );
  return rows;
}

/** The functions of the schema that run with the rights of their owner. */
export async function readDefinerFunctions(
  database: Database | Connection,
): Promise<FoundFunction[]> {
  const { rows } = await database.query<FoundFunction>(
    `select proname as name, quote_ident(rolname) as owner, array(
         select coalesce(quote_ident(grantee.rolname), 'public')
         from aclexplode(coalesce(proacl, acldefault('f', proowner))) as acl
           left join pg_roles as grantee on grantee.oid = acl.grantee
         where acl.grantee <> proowner order by 1) as executors
     from pg_proc join pg_roles on pg_roles.oid = proowner
     where pronamespace = current_schema()::regnamespace and prosecdef
     order by proname`,
  );
  return rows;
}
