import { type Connection, type Database, withSnapshot } from '../../connection/pool.ts';
import { failureText } from '../failure-text.ts';
import {
  type MappedView,
  type Mapping,
  type MappingDefinition,
  mappedViews,
  readDefinition,
  storedTables,
} from '../mapping-definition.ts';
import { type OrganizationTotals, totalsOf } from '../organization-totals.ts';
import { readSourceTables, type SourceTable } from '../source-tables.ts';
import { attempt, error, type Finding } from './finding.ts';
import { checkApplyRights, checkViewRights, type RoleRights, readRights } from './rights.ts';
import { checkRows } from './row-findings.ts';
import { type RowSummary, summarizeRows } from './row-summary.ts';
import { type SourceKeys, trySourceKeys } from './source-keys.ts';
import {
  checkPartitions,
  checkRelations,
  checkTable,
  failureAdvice,
  findTable,
  readRelations,
} from './sources.ts';
import { checkStoredRows } from './stored-rows.ts';
import { checkCustomerKey, checkNames, checkTypes } from './view-columns.ts';

export type CheckedView = {
  readonly view: MappedView;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** Null if findings prevent that the rows are read. */
  readonly rows: RowSummary | null;
};

export type MappingCheck = {
  readonly findings: readonly Finding[];
  /** The views that exist. */
  readonly views: readonly CheckedView[];
  /** Of both views. Null if the rows of one are not read. */
  readonly totals: readonly OrganizationTotals[] | null;
  /** Null if the mapping cannot be applied. */
  readonly mapping: Mapping | null;
};

/** Checks the views and sources of a user, in one snapshot. Changes nothing. */
export const checkMapping = (database: Database, signal?: AbortSignal): Promise<MappingCheck> =>
  withSnapshot(
    database,
    async (connection) => {
      // A policy that hides rows is an error.
      await connection.query('set local row_security = off');
      return check(connection);
    },
    signal,
  );

async function check(connection: Connection): Promise<MappingCheck> {
  const definition = await readDefinition(connection);
  const organizationId = await readOrganization(connection);
  const rights = await readRights(connection);
  const findings: Finding[] = [];
  const readable: MappedView[] = [];
  for (const view of mappedViews) {
    const found = await checkView(connection, definition, view, organizationId);
    findings.push(...found.findings);
    if (found.isReadable && !rights.unreadable.includes(view)) readable.push(view);
  }
  findings.push(...checkViewRights(rights));
  const { mapped_customers: customers, mapped_purchases: purchases } = definition.views;
  if (customers !== null && purchases !== null) {
    findings.push(...checkCustomerKey(customers, purchases));
  }
  const sources = await checkSources(connection, definition, rights, organizationId);
  findings.push(...sources.findings);
  // Purchases are read with their customers.
  const isComplete = readable.length === mappedViews.length;
  const views: CheckedView[] = [];
  for (const view of mappedViews) {
    const columns = definition.views[view];
    if (columns === null) continue;
    const canRead =
      view === 'mapped_customers' ? readable.includes(view) : isComplete && views[0]?.rows != null;
    const mapping = definition as Mapping;
    const ofView = sources.keys.filter(({ source }) => source.view === view);
    const rows = canRead
      ? await readRows(connection, mapping, view, ofView, findings, rights.role)
      : null;
    views.push({ view, columns: [...columns].map(([name, type]) => ({ name, type })), rows });
  }
  const [ofCustomers, ofPurchases] = views.map(({ rows }) => rows);
  return {
    findings: distinct(findings),
    views,
    totals:
      ofCustomers && ofPurchases
        ? await totalsOf(connection, ofCustomers.totals, ofPurchases.totals)
        : null,
    mapping: findings.some(({ severity }) => severity === 'error') ? null : (definition as Mapping),
  };
}

/** Errors first, each once. */
function distinct(findings: readonly Finding[]): Finding[] {
  const byText = new Map(
    findings.map((finding) => [`${finding.message} ${finding.advice}`, finding]),
  );
  return [...byText.values()].toSorted((one, other) => one.severity.localeCompare(other.severity));
}

/** The first organization, for the lines to write. */
async function readOrganization(connection: Connection): Promise<string> {
  const { rows } = await connection.query<{ id: string }>(
    'select coalesce(min(id), 1)::text as id from organizations',
  );
  return rows[0]?.id ?? '1';
}

type StoredView = {
  readonly kind: string | null;
  readonly definition: string;
  /** The columns of the service's table. */
  readonly stored: string[];
};

async function checkView(
  connection: Connection,
  { views }: MappingDefinition,
  view: MappedView,
  organizationId: string,
): Promise<{ readonly findings: Finding[]; readonly isReadable: boolean }> {
  const columns = views[view];
  const { rows } = await connection.query<StoredView>(
    `select (select relkind from pg_class where oid = to_regclass($1)) as kind,
       coalesce(pg_get_viewdef(to_regclass($1)), '') as definition,
       array(select attname::text from pg_attribute
         where attrelid = to_regclass($2) and attnum > 0 and not attisdropped) as stored`,
    [view, storedTables[view]],
  );
  const { kind = null, definition = '', stored = [] } = rows[0] ?? {};
  if (columns === null || kind !== 'v') {
    const problem = kind === null ? 'does not exist' : 'is no view';
    const line = `create view ${view} as select id as external_id, ${organizationId}::bigint as organization_id, … from …;`;
    return { findings: [error(view, `The view ${view} ${problem}.`, line)], isReadable: false };
  }
  const checked = { view, columns, definition, stored, organizationId };
  const ofTypes = checkTypes(checked);
  if (columns.has('external_id')) {
    const ordered = await attempt(connection, () =>
      connection.query(`select external_id from ${view} order by external_id limit 0`),
    );
    // Rights are another finding.
    if (ordered instanceof Error && ordered.code === '42883') {
      ofTypes.push(
        error(
          view,
          `${view}.external_id has the type ${columns.get('external_id')}, which has no order.`,
          'external_id::text as external_id',
        ),
      );
    }
  }
  return { findings: [...checkNames(checked), ...ofTypes], isReadable: ofTypes.length === 0 };
}

async function checkSources(
  connection: Connection,
  { views, sources }: MappingDefinition,
  rights: RoleRights,
  organizationId: string,
): Promise<{ readonly findings: Finding[]; readonly keys: SourceKeys[] }> {
  const relations = await readRelations(connection);
  const findings: Finding[] = [];
  const keys: SourceKeys[] = [];
  for (const source of sources) {
    const table = await attempt(connection, () => findTable(connection, source.source));
    const ofTable = checkTable(source, table, relations, rights.role);
    findings.push(...ofTable);
    if (ofTable.length > 0 || table === null || table instanceof Error) continue;
    const keyType = views[source.view]?.get('external_id');
    keys.push(await trySourceKeys(connection, source, table, keyType, rights.role));
  }
  findings.push(...keys.flatMap((tried) => tried.findings));
  const tables = await readTables(connection, findings);
  const existing = relations.filter(({ view }) => views[view] !== null);
  findings.push(
    ...checkPartitions(tables),
    ...checkRelations(existing, sources, tables, organizationId).filter(
      ({ view }) => views[view] !== null,
    ),
    ...checkApplyRights(rights, tables),
  );
  return { findings, keys };
}

/** None if a name cannot be read, which is a finding already. */
async function readTables(
  connection: Connection,
  findings: readonly Finding[],
): Promise<readonly SourceTable[]> {
  const tables = await attempt(connection, () => readSourceTables(connection));
  if (!(tables instanceof Error)) return tables;
  if (findings.length === 0) throw tables;
  return [];
}

/** Adds what is wrong with the rows of a view to the findings. Null if they cannot be read. */
async function readRows(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  sources: readonly SourceKeys[],
  findings: Finding[],
  role: string,
): Promise<RowSummary | null> {
  const summary = await attempt(connection, () =>
    summarizeRows(connection, mapping, view, sources),
  );
  if (summary instanceof Error) {
    const advice = await failureAdvice(connection, view, summary);
    findings.push(error(view, `${view} fails: ${failureText(summary)}.`, advice));
    return null;
  }
  const organizations = [...new Set(summary.totals.map(({ organization }) => organization))];
  findings.push(
    ...checkRows(mapping, view, summary),
    ...(await checkStoredRows(connection, mapping, view, organizations, role)),
  );
  return summary;
}
