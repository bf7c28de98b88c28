import type { Connection } from '../../connection/pool.ts';
import { mappedRows } from '../mapped-rows.ts';
import {
  keyTypeOf,
  type MappedView,
  type Mapping,
  type MappingSource,
} from '../mapping-definition.ts';
import type { RowTotal } from '../organization-totals.ts';
import { keysFrom, mappedKey } from '../trigger-function.ts';
import type { SourceKeys } from './source-keys.ts';

/** Labels whose values the summary counts. */
const summarizedLabels = ['payment_status', 'platform', 'status', 'currency'] as const;
type SummarizedLabel = (typeof summarizedLabels)[number];

/** The most frequent values of each label that the summary has. Each currency is checked. */
const maxValues = { ofLabels: 20, ofCurrencies: 200 };
const maxExamples = 3;

/** External ids, as text, and how many there are. */
export type CountedKeys = { readonly rows: number; readonly examples: readonly string[] };

export type RefusedRows = CountedKeys & { readonly column: string; readonly reason: string };

export type LabelCount = {
  readonly column: SummarizedLabel;
  /** Null for rows without one. */
  readonly value: string | null;
  readonly rows: number;
  /** Distinct values of the column. */
  readonly values: number;
};

/** What a view has, from one read of it. */
export type RowSummary = {
  readonly rows: number;
  /** Rows without external_id. */
  readonly nullKeys: number;
  /** External ids of several rows. */
  readonly duplicates: CountedKeys;
  /** External ids that differ after a cast to text and back. */
  readonly changedByText: CountedKeys;
  readonly refused: readonly RefusedRows[];
  readonly labels: readonly LabelCount[];
  readonly totals: readonly RowTotal[];
  /** Purchases without a customer, and of a customer that no row of mapped_customers has. */
  readonly guests: { readonly withoutCustomer: number; readonly ofUnknownCustomer: number };
  readonly sources: readonly SourceCounts[];
  /** The earliest and the latest `created_at` in UTC, and in the time zones that the view names. */
  readonly created: readonly CreatedRange[];
};

/** The keys of all rows of a source, and those of which the view has no row. */
type SourceCounts = Pick<MappingSource, 'source' | 'key'> & {
  readonly keys: number;
  readonly missing: CountedKeys;
};

/** Local times of `zone`, to the minute. */
export type CreatedRange = { readonly zone: string; readonly first: string; readonly last: string };

/** Reads the view once. Rejects with the error of a row that cannot be evaluated. */
export async function summarizeRows(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  sources: readonly SourceKeys[],
): Promise<RowSummary> {
  const tried = sources.filter(({ isUsable }) => isUsable);
  const zones = await readZones(connection, view);
  const { rows } = await connection.query<{ summary: RowSummary }>(
    `with ${mappedOnce(mapping, view)},
     duplicates as materialized (
       select external_id::text as key from mapped where external_id is not null
       group by external_id having count(*) > 1
     ),
     changed_by_text as materialized (select external_id::text as key from mapped where is_changed_by_text),
     refused as materialized (
       select external_id::text as key, refusal[1] as column_name, refusal[2] as reason
       from mapped where refusal is not null and external_id is not null
     ),
     ${tried.map((keys, index) => keysOfSource(keys, index)).join('')}
     labels as (${labelCounts(mapping, view)})
     select json_build_object(
       'rows', (select count(*) from mapped),
       'nullKeys', (select count(*) from mapped where external_id is null),
       'duplicates', ${countedKeys('duplicates')},
       'changedByText', ${countedKeys('changed_by_text')},
       'refused', (
         select coalesce(json_agg(json_build_object(
           'column', column_name, 'reason', reason, 'rows', rows, 'examples', array(
             select key from refused
             where refused.column_name = kinds.column_name and refused.reason = kinds.reason
             limit ${maxExamples})
         ) order by column_name, reason), '[]')
         from (select column_name, reason, count(*) as rows from refused group by 1, 2) as kinds),
       'labels', (
         select coalesce(json_agg(json_build_object(
           'column', column_name, 'value', value, 'rows', rows, 'values', values
         ) order by column_number, rows desc, value), '[]')
         from labels
         where position <= case column_name when 'currency' then ${maxValues.ofCurrencies} else ${maxValues.ofLabels} end),
       'totals', (
         select coalesce(json_agg(json_build_object(
           'organization', organization_id::text, 'currency', currency, 'rows', rows, 'cents', cents::text
         ) order by organization_id, currency), '[]')
         from (
           select organization_id, currency, count(*) as rows, sum(cents) as cents
           from mapped where refusal is null group by 1, 2) as totals),
       'guests', (
         select json_build_object(
           'withoutCustomer', count(*) filter (where customer = 'none'),
           'ofUnknownCustomer', count(*) filter (where customer = 'unknown'))
         from mapped where refusal is null),
       'sources', json_build_array(${tried.map((_, index) => countsOfSource(index)).join(', ')}),
       'created', (
         select coalesce(json_agg(json_build_object(
           'zone', zone, 'first', ${localTime('first')}, 'last', ${localTime('last')}
         ) order by number), '[]')
         from (select min(created_at) as first, max(created_at) as last from mapped where refusal is null) as created,
           unnest($1::text[]) with ordinality as zones (zone, number)
         where first is not null)
     ) as summary`,
    [zones],
  );
  const { summary } = rows[0] as { summary: RowSummary };
  const named = tried.map(({ source: { key }, table }, index) => ({
    ...(summary.sources[index] as SourceCounts),
    source: table,
    key,
  }));
  return { ...summary, sources: named };
}

/** UTC, and the time zones of `at time zone` in the view. */
async function readZones(connection: Connection, view: MappedView): Promise<string[]> {
  const { rows } = await connection.query<{ zone: string }>(
    `select distinct named[1] as zone
     from regexp_matches(pg_get_viewdef($1::regclass), $2, 'g') as named order by 1`,
    [view, `AT TIME ZONE '([^']+)'`],
  );
  return [...new Set(['UTC', ...rows.map(({ zone }) => zone)])];
}

const localTime = (column: string): string =>
  `to_char(${column} at time zone zone, 'YYYY-MM-DD HH24:MI')`;

/** Compared as text, because a key may be one that the view's type does not have. */
const keysOfSource = ({ source, table }: SourceKeys, index: number): string => `
     keys_${index} as materialized (
       select distinct ${mappedKey}::text as key ${keysFrom(source.key, table, table)} where ${mappedKey} is not null
     ),
     missing_${index} as materialized (
       select key from keys_${index} where not exists (select from mapped where external_id::text = key)
     ),`;

const countsOfSource = (index: number): string =>
  `json_build_object('keys', (select count(*) from keys_${index}), 'missing', ${countedKeys(`missing_${index}`)})`;

const countedKeys = (relation: string): string =>
  `json_build_object('rows', (select count(*) from ${relation}),
     'examples', array(select key from ${relation} limit ${maxExamples}))`;

/** The table expression `mapped`: of each row what the summary needs, with all columns evaluated. */
function mappedOnce(mapping: Mapping, view: MappedView): string {
  const { columns, selectList } = mappedRows(mapping, view);
  const isPurchases = view === 'mapped_purchases';
  const names = columns.map(({ name }) => name);
  const labels = summarizedLabels.filter((name) => isPurchases && names.includes(name));
  const type = keyTypeOf(mapping, view);
  // `offset 0`, because Postgres would evaluate an expression of the view wherever it is used.
  const rowsOf = (name: MappedView, list: string) =>
    `(select ${list} from (select * from ${name} offset 0) as v offset 0)`;
  const customers = `
    customers as (
      select external_id, organization_id
      from ${rowsOf('mapped_customers', mappedRows(mapping, 'mapped_customers').selectList)} as rows
      where refusal is null group by 1, 2
    ),`;
  return `${isPurchases ? customers : ''}
    mapped as materialized (
      select rows.external_id, rows.organization_id, rows.refusal,
        num_nonnulls(${['external_id', ...names].map((name) => `rows.${name}`).join(', ')}) as evaluated,
        rows.external_id::text::${type} is distinct from rows.external_id as is_changed_by_text,
        ${isPurchases ? 'rows.purchase_value_in_cents' : 'null::bigint'} as cents,
        ${names.includes('created_at') ? 'rows.created_at' : 'null::timestamptz as created_at'},
        ${labels.includes('currency') ? '' : 'null as currency,'}
        ${labels.map((name) => `rows.${name},`).join(' ')}
        ${isPurchases ? customerState : 'null'} as customer
      from ${rowsOf(view, selectList)} as rows
        ${isPurchases ? customersOfRows : ''}
    )`;
}

const customersOfRows = `left join customers on customers.external_id = rows.customer_external_id
          and customers.organization_id = rows.organization_id`;
const customerState = `case when rows.customer_external_id is null then 'none'
          when customers.external_id is null then 'unknown' else 'known' end`;

function labelCounts(mapping: Mapping, view: MappedView): string {
  const names = summarizedLabels.filter(
    (name) => view === 'mapped_purchases' && mapping.views[view].has(name),
  );
  const counts = names.map(
    (name, index) => `
      select ${index} as column_number, '${name}' as column_name, ${name} as value, count(*) as rows,
        count(*) over () as values, row_number() over (order by count(*) desc, ${name}) as position
      from mapped where refusal is null group by ${name}`,
  );
  return counts.length === 0
    ? `select 0 as column_number, '' as column_name, '' as value, 0 as rows, 0 as values, 0 as position where false`
    : counts.join(' union all ');
}
