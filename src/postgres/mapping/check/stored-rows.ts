import type { Connection } from '../../connection/pool.ts';
import {
  keyTypeOf,
  type MappedView,
  type Mapping,
  numberTables,
  storedTables,
} from '../mapping-definition.ts';
import { attempt, error, type Finding, warning } from './finding.ts';
import { rowsOf } from './row-findings.ts';

/** What is wrong with the rows that the service already has. */
export async function checkStoredRows(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  organizations: readonly string[],
  role: string,
): Promise<Finding[]> {
  const stored = storedTables[view];
  const { rows } = await connection.query<{
    type: string;
    isApplied: boolean;
    owner: string | null;
  }>(
    `select format_type(atttypid, -1) as type,
       exists (select from ${numberTables[view]}) as "isApplied",
       (select case when not pg_has_role(relowner, 'usage') then quote_ident(pg_get_userbyid(relowner)) end
        from pg_class where oid = attrelid) as owner
     from pg_attribute where attrelid = to_regclass($1) and attname = 'external_id'`,
    [numberTables[view]],
  );
  const { type = null, isApplied = false, owner = null } = rows[0] ?? {};
  if (type !== keyTypeOf(mapping, view) && owner !== null) {
    return [
      error(
        view,
        `Only the owner of ${numberTables[view]} may give its external ids the type of ${view}.external_id.`,
        `grant ${owner} to ${role};`,
      ),
    ];
  }
  if (isApplied && type !== null) return checkNumbers(connection, mapping, view, type);
  const { rows: others } = await connection.query<{ organization: string; rows: number }>(
    `select organization_id::text as organization, count(*)::float8 as rows from ${stored}
     where organization_id = any ($1::bigint[]) group by 1 order by 1`,
    [organizations],
  );
  return others.map(({ organization, rows: count }) =>
    warning(
      view,
      `The organization ${organization} already has ${rowsOf(count)} in ${stored}, which stay beside those of ` +
        `${view}. If an earlier mapping wrote them, delete them.`,
      `delete from ${stored} where organization_id = ${organization};`,
    ),
  );
}

/** The numbers of an earlier `apply` may have keys of a type that cannot become the new one. */
async function checkNumbers(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  type: string,
): Promise<Finding[]> {
  const wanted = keyTypeOf(mapping, view);
  if (type === wanted) return [];
  const numbers = numberTables[view];
  const cast = await attempt(connection, () =>
    connection.query(`select count(external_id::text::${wanted}) from ${numbers}`),
  );
  if (!(cast instanceof Error)) return [];
  return [
    error(
      view,
      `${view}.external_id has the type ${wanted}. Rows are applied with keys of the type ${type}, which do not cast to it.`,
      'npx crm-data-service mapping remove --rows',
    ),
  ];
}
