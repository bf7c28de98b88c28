import type { Connection } from '../../connection/pool.ts';
import { keyTypeOf, type MappedView, type Mapping } from '../mapping-definition.ts';
import { error, type Finding, warning } from './finding.ts';
import {
  comparedExpression,
  fullScans,
  indexExpression,
  isBlocking,
  isForEachRow,
  type PlanNode,
  type Scan,
  sortedExpression,
} from './plan-conditions.ts';

/** Tables with fewer rows are read within milliseconds. */
const largeRows = 10_000;

type Relation = {
  /** The table, or the partitioned table that it belongs to, with its schema, quoted. */
  readonly name: string;
  /** An estimate, of the scanned partition. */
  readonly rows: number;
  /** Columns whose comparisons Postgres shows as those of text. */
  readonly varchars: readonly string[];
  /** The expressions that indexes begin with. */
  readonly indexed: readonly string[];
};

type Found = {
  finding: (rows: number) => Finding;
  /** By scanned table. */
  rowsOf: Map<string, number>;
};

/**
 * Whether changes and comparisons read more of the shop's tables than the rows that they need. An error
 * if a subquery reads all of a large table for each row: reading all rows would not end.
 */
export async function checkPlans(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
): Promise<Finding[]> {
  const keyType = keyTypeOf(mapping, view);
  const { rows: some } = await connection.query<{ key: string }>(
    `select external_id::text as key from ${view} where external_id is not null limit 5`,
  );
  if (some.length === 0) return [];
  const lookup = await explain(
    connection,
    `select * from ${view} where external_id = any ($1::text[]::${keyType}[])`,
    [some.map(({ key }) => key)],
  );
  const range = await explain(
    connection,
    `select * from ${view} order by external_id limit 100`,
    [],
  );
  const scans = [
    ...fullScans(lookup).map((scan) => ({
      scan,
      expression: comparedExpression(scan),
      purpose: 'A lookup by external_id',
    })),
    ...fullScans(range)
      .filter((scan) => scan.path.some(isBlocking) && !isForEachRow(scan))
      .map((scan) => ({
        scan,
        expression: sortedExpression(scan) ?? comparedExpression(scan),
        purpose: 'Each step of a comparison',
      })),
  ];
  // Partitions have a scan each.
  const found = new Map<string, Found>();
  for (const { scan, expression, purpose } of scans) {
    const relation = await readRelation(connection, scan);
    if (relation === null) continue;
    const advice = adviceFor(relation, expression);
    const finding = (rows: number): Finding => {
      const read = `all rows of ${relation.name}, about ${rows.toLocaleString('en')}`;
      return isForEachRow(scan)
        ? error(view, `A subquery of ${view} reads ${read}, for each row.`, advice)
        : warning(view, `${purpose} of ${view} reads ${read}.`, advice);
    };
    const { rowsOf } = found.get(advice) ?? { rowsOf: new Map() };
    rowsOf.set(`${scan.schema}.${scan.relation}`, relation.rows);
    found.set(advice, { finding: found.get(advice)?.finding ?? finding, rowsOf });
  }
  return [...found.values()].flatMap(({ finding, rowsOf }) => {
    const rows = [...rowsOf.values()].reduce((sum, each) => sum + each, 0);
    return rows > largeRows ? [finding(rows)] : [];
  });
}

function adviceFor({ name, indexed, varchars }: Relation, compared: string | null): string {
  const column = varchars.find((varchar) => compared === `((${varchar})::text)`);
  const expression = column ?? compared;
  if (expression === null) {
    return `Compare external_id with an indexed column of ${name}: explain select * from …`;
  }
  return indexed.map(indexExpression).includes(expression)
    ? `Read ${name} in a subquery of the select list: (select … from ${name} where ${expression} = …)`
    : `create index on ${name} (${expression});`;
}

async function explain(
  connection: Connection,
  query: string,
  values: readonly unknown[],
): Promise<PlanNode> {
  const { rows } = await connection.query<{ 'QUERY PLAN': readonly { Plan: PlanNode }[] }>(
    `explain (format json, verbose) ${query}`,
    [...values],
  );
  return rows[0]?.['QUERY PLAN'][0]?.Plan as PlanNode;
}

async function readRelation(connection: Connection, scan: Scan): Promise<Relation | null> {
  const { rows } = await connection.query<Relation>(
    `with recursive ancestors (oid) as (
       select pg_class.oid from pg_class join pg_namespace on pg_namespace.oid = relnamespace
       where nspname = $1 and relname = $2
       union
       select inhparent from pg_inherits join ancestors on inhrelid = oid
     ), root (oid) as (
       select oid from ancestors where not exists (select from pg_inherits where inhrelid = oid)
     )
     select quote_ident(nspname) || '.' || quote_ident(relname) as name,
       (select case when scanned.reltuples >= 0 then scanned.reltuples
          -- It was never analyzed.
          else pg_relation_size(scanned.oid) / 100 end::float8
        from pg_class as scanned join pg_namespace as of_scanned on of_scanned.oid = scanned.relnamespace
        where of_scanned.nspname = $1 and scanned.relname = $2) as rows,
       array(
         select quote_ident(attname) from pg_attribute
         where attrelid = pg_class.oid and atttypid = 'varchar'::regtype) as varchars,
       array(select pg_get_indexdef(indexrelid, 1, false) from pg_index where indrelid = pg_class.oid) as indexed
     from root join pg_class using (oid) join pg_namespace on pg_namespace.oid = relnamespace`,
    [scan.schema, scan.relation],
  );
  return rows[0] ?? null;
}
