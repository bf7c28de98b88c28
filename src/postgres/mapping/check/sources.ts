import pg from 'pg';
import type { Connection } from '../../connection/pool.ts';
import { type MappedView, type MappingSource, mappedViews } from '../mapping-definition.ts';
import type { SourceTable } from '../source-tables.ts';
import { error, type Finding, warning } from './finding.ts';
import { organizationLine } from './view-columns.ts';

const { escapeLiteral } = pg;

/** A table that mapping_sources names, or a relation. */
export type NamedTable = {
  readonly oid: string;
  /** With its schema, quoted. */
  readonly name: string;
  /** As in pg_class: `r` for a table, `p` for a partitioned table. */
  readonly kind: string;
  /** The first column of its primary key, quoted. */
  readonly key: string | null;
};

const namedTable = `pg_class.oid::text as oid, quote_ident(nspname) || '.' || quote_ident(relname) as name,
       relkind as kind,
       (select quote_ident(attname) from pg_index join pg_attribute
          on attrelid = indrelid and attnum = indkey[0]
        where indrelid = pg_class.oid and indisprimary) as key`;

/** A relation that a view reads, itself or through other views. */
type ReadRelation = NamedTable & {
  readonly view: MappedView;
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
     select view, ${namedTable}, pg_class.oid = 'organizations'::regclass as "isOrganizations"
     from relations join pg_class using (oid) join pg_namespace on pg_namespace.oid = relnamespace
     where pg_class.oid is distinct from to_regclass(view)::oid
     order by view, name`,
    [mappedViews],
  );
  return rows;
}

const isTable = ({ kind }: { readonly kind: string }): boolean => /^[rp]$/.test(kind);

/** The row of mapping_sources as a condition. */
export const whereSource = ({ view, source, key }: MappingSource): string =>
  `where view = ${escapeLiteral(view)} and source = ${escapeLiteral(source)} and key = ${escapeLiteral(key)};`;

/** Null if there is no relation of this name, or it is no name. */
export async function findTable(
  connection: Connection,
  source: string,
): Promise<NamedTable | null> {
  const { rows } = await connection.query<NamedTable>(
    `select ${namedTable}
     from pg_class join pg_namespace on pg_namespace.oid = relnamespace
     where pg_class.oid = to_regclass($1)`,
    [source],
  );
  return rows[0] ?? null;
}

const otherKinds: Readonly<Record<string, string>> = {
  v: 'a view',
  m: 'a materialized view',
  f: 'a foreign table, whose changes Postgres does not see',
};

/** What is wrong with the name of a source. */
export function checkTable(
  { view, source, key }: MappingSource,
  found: NamedTable | pg.DatabaseError | null,
  relations: readonly ReadRelation[],
  role: string,
): Finding[] {
  if (found !== null && !(found instanceof Error) && isTable(found)) return [];
  if (found instanceof Error && found.code === '42501') {
    const schema = /schema (\S+)/.exec(found.message)?.[1] ?? '…';
    return [
      error(
        view,
        `mapping_sources names ${source} for ${view}, which the role ${role} may not use.`,
        `grant usage on schema ${schema} to ${role};`,
      ),
    ];
  }
  const tables = relations.filter((relation) => relation.view === view && isTable(relation));
  const names = tables.map(({ name }) => name);
  const problem =
    found instanceof Error
      ? `cannot be read: ${found.message}`
      : found === null
        ? 'does not exist'
        : `is ${otherKinds[found.kind] ?? 'no table'}`;
  const [only, another] = names;
  const row = whereSource({ view, source, key });
  return [
    error(
      view,
      `mapping_sources names ${source} for ${view}, which ${problem}.` +
        (names.length > 0 ? ` The view reads ${names.join(', ')}.` : ''),
      only === undefined || another !== undefined
        ? `delete from mapping_sources ${row}`
        : `update mapping_sources set source = ${escapeLiteral(only)} ${row}`,
    ),
  ];
}

/** Views without a source, tables of views that no source names, and the table of organizations. */
export function checkRelations(
  relations: readonly ReadRelation[],
  sources: readonly MappingSource[],
  tables: readonly SourceTable[],
  organizationId: string,
): Finding[] {
  return mappedViews.flatMap((view) => {
    const findings: Finding[] = [];
    const read = relations.filter((relation) => relation.view === view);
    if (read.some(({ isOrganizations }) => isOrganizations)) {
      findings.push(
        error(
          view,
          `${view} reads the table organizations. If an organization is renamed, its rows would be deleted. ` +
            'Write the number of organization_id instead.',
          organizationLine(organizationId),
        ),
      );
    }
    const shopTables = read.filter((table) => isTable(table) && !table.isOrganizations);
    if (!sources.some((source) => source.view === view)) {
      findings.push(
        error(
          view,
          `mapping_sources has no row for ${view}, so its changes would not be noticed.`,
          insertSource(view, shopTables[0]),
        ),
      );
      return findings;
    }
    const named = new Set(
      tables.filter(({ keys }) => keys.some((key) => key.view === view)).map(({ oid }) => oid),
    );
    for (const table of shopTables.filter(({ oid }) => !named.has(oid))) {
      findings.push(
        warning(
          view,
          `${view} reads ${table.name}, which mapping_sources does not name. Only comparisons find its changes.`,
          insertSource(view, { ...table, key: null }),
        ),
      );
    }
    return findings;
  });
}

/** A partition or child of another source has the triggers of that one. */
export const checkPartitions = (tables: readonly SourceTable[]): Finding[] =>
  tables
    .filter(({ name, root }) => name !== root && tables.some((other) => other.root === name))
    .map(({ name, root, keys }) =>
      error(
        keys[0]?.view ?? 'mapped_purchases',
        `mapping_sources names ${name} and ${root}, of which it is a part.`,
        `delete from mapping_sources where to_regclass(source) = ${escapeLiteral(name)}::regclass;`,
      ),
    );

const insertSource = (view: MappedView, table: ReadRelation | undefined): string =>
  'insert into mapping_sources (view, source, key) values ' +
  `('${view}', ${escapeLiteral(table?.name ?? '…')}, ${escapeLiteral(table?.key ?? '…')});`;

/** The line to write for a view that fails. */
export async function failureAdvice(
  connection: Connection,
  view: MappedView,
  { code, message }: pg.DatabaseError,
): Promise<string> {
  if (code === '42501') {
    const table = /permission denied for (?:table|view) (\S+)/.exec(message)?.[1];
    // The message has no schema.
    const read = (await readRelations(connection)).find(
      (relation) => relation.view === view && relation.name.endsWith(`.${table}`),
    );
    const { rows } = await connection.query<{ owner: string }>(
      'select relowner::regrole::text as owner from pg_class where oid = to_regclass($1)',
      [view],
    );
    return `grant select on ${read?.name ?? table ?? '…'} to ${rows[0]?.owner ?? '…'};`;
  }
  if (code === '42P22') {
    return '… collate "C" as customer_external_id   -- the collation of external_id of mapped_customers';
  }
  if (code === '22012') return 'nullif(divisor, 0)';
  return `select * from ${view};   -- fails too, and says with which value: correct the expression`;
}
