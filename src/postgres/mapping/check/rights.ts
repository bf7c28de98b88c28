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
export async function checkApplyRights(
  connection: Connection,
  { role, schema, canCreate }: RoleRights,
  tables: readonly SourceTable[],
): Promise<Finding[]> {
  const findings: Finding[] = [];
  if (!canCreate && !tables.every(isTriggered)) {
    findings.push(
      error(
        'mapped_customers',
        `The role ${role} may not create functions in the schema ${schema}, such as those of the triggers for mapped_customers.`,
        `grant create on schema ${schema} to ${role};`,
      ),
    );
  }
  const missing = await tablesWithoutRight(
    connection,
    tables.filter((table) => !isTriggered(table)),
  );
  for (const [ofSchema, refused] of groupBy(missing, (table) => schemaOf(table.name))) {
    const names = refused.map(({ name }) => name);
    const wanted =
      names.length > maxNamedTables ? `all tables in schema ${ofSchema}` : names.join(', ');
    findings.push(
      error(
        viewOf(refused[0] as SourceTable),
        `The role ${role} may not create triggers on ${named(names)}, a source of ${viewOf(refused[0] as SourceTable)}.`,
        `grant trigger on ${wanted} to ${role};`,
      ),
    );
  }
  const others = tables.filter(
    ({ isOwned, triggers }) => !isOwned && triggers[triggerNames.replica] !== true,
  );
  const owners = await ownersOf(connection, others);
  for (const [owner, owned] of groupBy(others, ({ oid }) => owners.get(oid) ?? '')) {
    findings.push(
      warning(
        viewOf(owned[0] as SourceTable),
        `The role ${role} does not own ${named(owned.map(({ name }) => name))}. If logical replication, or ` +
          'session_replication_role = replica, writes these tables, only comparisons find the changes.',
        `Ignore this, or run \`npm run mapping -- triggers\` as a member of ${owner}.`,
      ),
    );
  }
  return findings;
}

const viewOf = ({ keys }: SourceTable): MappedView => keys[0]?.view ?? 'mapped_purchases';

const schemaOf = (name: string): string => /^(?:"(?:[^"]|"")*"|[^".]*)/.exec(name)?.[0] ?? name;

const named = (names: readonly string[]): string =>
  names.length > maxNamedTables
    ? `${names.slice(0, maxNamedTables).join(', ')} and ${names.length - maxNamedTables} more tables`
    : names.join(', ');

function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

async function tablesWithoutRight(
  connection: Connection,
  tables: readonly SourceTable[],
): Promise<SourceTable[]> {
  const { rows } = await connection.query<{ oid: string }>(
    `select oid::text as oid from unnest($1::oid[]) as oid where not has_table_privilege(oid, 'trigger')`,
    [tables.map(({ oid }) => oid)],
  );
  const refused = new Set(rows.map(({ oid }) => oid));
  return tables.filter(({ oid }) => refused.has(oid));
}

/** Names of owners, quoted, by the number of the table. */
async function ownersOf(
  connection: Connection,
  tables: readonly SourceTable[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await connection.query<{ oid: string; owner: string }>(
    `select oid::text as oid, quote_ident(pg_get_userbyid(relowner)) as owner from pg_class
     where oid = any ($1::oid[])`,
    [tables.map(({ oid }) => oid)],
  );
  return new Map(rows.map(({ oid, owner }) => [oid, owner]));
}
