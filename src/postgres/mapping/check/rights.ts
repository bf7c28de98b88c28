import type { Connection } from '../../connection/pool.ts';
import { type MappedView, mappedViews } from '../mapping-definition.ts';
import type { SourceTable } from '../source-tables.ts';
import { triggerNames } from '../structure.ts';
import { isTriggered } from '../triggers.ts';
import { error, type Finding, warning } from './finding.ts';

/** More tables of a schema are granted by one statement for all. */
const maxNamedTables = 5;

export type RoleRights = {
  /** Quoted. */
  readonly role: string;
  readonly schema: string;
  readonly canCreate: boolean;
  readonly unreadable: readonly MappedView[];
};

export async function readRights(connection: Connection): Promise<RoleRights> {
  const { rows } = await connection.query<RoleRights>(
    `select quote_ident(current_user) as role, quote_ident(current_schema()) as schema,
       has_schema_privilege(current_schema(), 'create') as "canCreate",
       array(select view from unnest($1::text[]) as view
         where not has_table_privilege(to_regclass(view)::oid, 'select')) as unreadable`,
    [mappedViews],
  );
  return rows[0] as RoleRights;
}

/** What the role needs to read the views. */
export const checkViewRights = ({ role, unreadable }: RoleRights): Finding[] =>
  unreadable.map((view) =>
    error(view, `The role ${role} may not read ${view}.`, `grant select on ${view} to ${role};`),
  );

/** What the role needs to apply the mapping. */
export function checkApplyRights(
  { role, schema, canCreate }: RoleRights,
  tables: readonly SourceTable[],
): Finding[] {
  const untriggered = tables.filter((table) => !isTriggered(table));
  const refused = groupBy(
    untriggered.filter(({ canTrigger }) => !canTrigger),
    'schema',
  );
  const others = groupBy(
    tables.filter(({ isOwned, triggers }) => !isOwned && triggers[triggerNames.replica] !== true),
    'owner',
  );
  return [
    ...(canCreate || untriggered.length === 0
      ? []
      : [
          error(
            'mapped_customers',
            `The role ${role} may not create functions in the schema ${schema}, such as those of the triggers for mapped_customers.`,
            `grant create on schema ${schema} to ${role};`,
          ),
        ]),
    ...[...refused].map(([ofSchema, { view, names }]) =>
      error(
        view,
        `The role ${role} may not create triggers on ${named(names)}, a source of ${view}.`,
        `grant trigger on ${names.length > maxNamedTables ? `all tables in schema ${ofSchema}` : names.join(', ')} to ${role};`,
      ),
    ),
    ...[...others].map(([owner, { view, names }]) =>
      warning(
        view,
        `The role ${role} does not own ${named(names)}. If logical replication, or ` +
          'session_replication_role = replica, writes these tables, only comparisons find the changes.',
        `Ignore this, or run \`npx crm-data-service mapping triggers\` as a member of ${owner}.`,
      ),
    ),
  ];
}

const named = (names: readonly string[]): string =>
  names.length > maxNamedTables
    ? `${names.slice(0, maxNamedTables).join(', ')} and ${names.length - maxNamedTables} more tables`
    : names.join(', ');

type Group = { readonly view: MappedView; readonly names: string[] };

/** The names of tables by owner or schema, with the view of the first one. */
function groupBy(tables: readonly SourceTable[], by: 'owner' | 'schema'): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const { name, keys, ...table } of tables) {
    const view = keys[0]?.view ?? 'mapped_purchases';
    const group = groups.get(table[by]) ?? { view, names: [] };
    group.names.push(name);
    groups.set(table[by], group);
  }
  return groups;
}
