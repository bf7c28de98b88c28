import {
  identifyingColumns,
  type MappedColumn,
  mappedColumns,
  requiredColumns,
  unitsName,
} from '../mapped-rows.ts';
import type { MappedView, ViewColumns } from '../mapping-definition.ts';
import { error, type Finding, warning } from './finding.ts';

type ColumnsToCheck = {
  readonly view: MappedView;
  readonly columns: ViewColumns;
  /** The query of the view, as Postgres writes it. */
  readonly definition: string;
  /** All columns of the table that the view is mapped to. */
  readonly stored: readonly string[];
  /** An organization, for the line to write. */
  readonly organizationId: string;
};

/** Columns whose names the service does not know, or which it writes itself. */
export function checkNames({ view, columns, stored }: ColumnsToCheck): Finding[] {
  const known = knownNames(view);
  return [...columns.keys()].flatMap((name) => {
    if (known.has(name)) return [];
    if (stored.includes(name)) {
      const key = keyColumns[name];
      const isMissing = key !== undefined && key in examples && !columns.has(key);
      return error(
        view,
        `${view}.${name} is not to be mapped: the worker computes it.`,
        isMissing ? `${name} as ${key}` : `Remove ${name} from the view.`,
      );
    }
    return error(
      view,
      `${view}.${name} is no column of the service. Columns are ${[...known].join(', ')}.`,
      `Remove ${name} from the view, or name it as one of these.`,
    );
  });
}

/** Names that a view may use, with those of amounts in units. */
const knownNames = (view: MappedView): ReadonlySet<string> =>
  new Set([
    ...identifyingColumns[view],
    ...mappedColumns[view].flatMap(({ name }) => [unitsName(name), name]),
  ]);

/** What a user may mean by the ids of the service. */
const keyColumns: Readonly<Record<string, string>> = {
  id: 'external_id',
  customer_id: 'customer_external_id',
};

const examples: Readonly<Record<string, string>> = {
  external_id: 'id as external_id',
  customer_external_id: 'customer_id as customer_external_id',
  purchase_value_in_cents: 'total as purchase_value',
  created_at: 'placed_at as created_at',
};

/** Missing columns, and types whose values cannot be mapped. Without these, the rows can be read. */
export function checkTypes(checked: ColumnsToCheck): Finding[] {
  const { view } = checked;
  return [
    ...checkRequired(checked),
    ...checkOrganization(checked),
    ...mappedColumns[view].flatMap((column) => checkColumn(checked, column)),
  ];
}

function checkRequired({ view, columns, organizationId }: ColumnsToCheck): Finding[] {
  return requiredColumns[view]
    .filter((name) => !columns.has(name) && !columns.has(unitsName(name)))
    .map((name) => {
      const names = name === unitsName(name) ? name : `${unitsName(name)} or ${name}`;
      const example = examples[name] ?? organizationLine(organizationId);
      return error(view, `${view} lacks the column ${names}.`, example);
    });
}

export const organizationLine = (organizationId: string): string =>
  `${organizationId}::bigint as organization_id`;

function checkOrganization({ view, columns, organizationId }: ColumnsToCheck): Finding[] {
  const type = columns.get('organization_id') ?? 'bigint';
  if (/^(smallint|integer|bigint)$/.test(type)) return [];
  return [
    error(
      view,
      `${view}.organization_id has the type ${type}. It must be the number of an organization.`,
      organizationLine(organizationId),
    ),
  ];
}

function checkColumn(
  { view, columns, definition }: ColumnsToCheck,
  column: MappedColumn,
): Finding[] {
  const { name } = column;
  const inUnits = unitsName(name);
  if (inUnits !== name && columns.has(name) && columns.has(inUnits)) {
    return [
      error(
        view,
        `${view} has both ${inUnits} and ${name}, which may contradict each other.`,
        `Remove ${name} from the view.`,
      ),
    ];
  }
  const written = columns.has(name) ? name : inUnits;
  const type = columns.get(written);
  if (type === undefined) return [];
  const problem = typeProblem(column, sourceOf(written, definition), type);
  if (problem === null) return [];
  const { reason, line } = problem;
  return [
    error(view, `${view}.${written} has the type ${type}${reason}.`, `${line} as ${written}`),
  ];
}

/** The column of a table that a column of the view is, if it is one. */
const sourceOf = (name: string, definition: string): string =>
  new RegExp(`[,\\n]\\s*((?:\\w+\\.)?[a-z_]\\w*) AS ${name}\\b`).exec(definition)?.[1] ?? name;

/** Why values of a type are refused, and the expression to write instead. Null if they are accepted. */
function typeProblem(
  { kind }: MappedColumn,
  name: string,
  type: string,
): { readonly reason: string; readonly line: string } | null {
  switch (kind) {
    case 'cents':
      if (/^(smallint|integer|bigint|numeric)$/.test(type)) return null;
      return {
        reason: /^(real|double precision)$/.test(type)
          ? ', which cannot express most amounts exactly'
          : type === 'money'
            ? ', whose digits depend on lc_monetary'
            : ', which is no number',
        line: `${name}::numeric`,
      };
    case 'instant':
      return type === 'timestamp with time zone' ? null : instantProblem(name, type);
    case 'boolean':
      if (type === 'boolean') return null;
      return {
        reason: ', which is not boolean',
        line: /^(smallint|integer|bigint|numeric)$/.test(type)
          ? `${name} <> 0`
          : `${name}::boolean`,
      };
    case 'text':
      return null;
    default:
      if (/^jsonb?$/.test(type)) return null;
      return {
        reason: ', which is no JSON',
        line: /^(text|character varying)$/.test(type) ? `${name}::jsonb` : `to_jsonb(${name})`,
      };
  }
}

function instantProblem(name: string, type: string) {
  const zone = `at time zone '${/gmt|utc/i.test(name) ? 'UTC' : 'America/Sao_Paulo'}'`;
  const reason = ', which has no time zone. Say which one it is in';
  if (type === 'timestamp without time zone') return { reason, line: `${name} ${zone}` };
  // Postgres would take a date for midnight in the zone of the session.
  if (type === 'date') return { reason, line: `${name}::timestamp ${zone}` };
  const isNumber = /^(smallint|integer|bigint|numeric|real|double precision)$/.test(type);
  return {
    reason: ', which is no instant',
    line: isNumber ? `to_timestamp(${name})` : `${name}::timestamptz`,
  };
}

/** Keys of another type than those that they name are compared as text. */
export function checkCustomerKey(customers: ViewColumns, purchases: ViewColumns): Finding[] {
  const wanted = customers.get('external_id');
  const type = purchases.get('customer_external_id');
  if (wanted === undefined || type === undefined || wanted === type) return [];
  return [
    warning(
      'mapped_purchases',
      `mapped_purchases.customer_external_id has the type ${type}, and mapped_customers.external_id ${wanted}.`,
      `customer_external_id::${wanted} as customer_external_id`,
    ),
  ];
}
