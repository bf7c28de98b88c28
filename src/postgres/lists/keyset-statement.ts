import sql, { join, type RawValue, raw, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../domain/instant.ts';
import { microsecondsOf } from './instants.ts';
import type { Search } from './search.ts';

/** The sort key of a list. Key and id are both descending. */
export type KeysetOrder = {
  readonly column: 'created_at' | 'updated_at' | 'total_spent_in_cents';
  readonly type: 'timestamptz' | 'bigint';
};
export type KeysetTable =
  | 'customers'
  | 'segments'
  | 'tags'
  | 'attributes'
  | 'flows'
  | 'email_campaigns'
  | 'template_campaigns';

/** A tag or a segment that customers are linked to. */
export type Link = { readonly relation: 'tag' | 'segment'; readonly id: bigint };

/** A page of a list. */
export type KeysetList = {
  readonly table: KeysetTable;
  /** Expressions on the table's qualified columns. */
  readonly selectList: string;
  readonly organizationId: bigint;
  readonly order: KeysetOrder;
  readonly conditions?: readonly Sql[];
  /** Conditions on columns of `customers` that its indexes of lists include. Few rows may match. */
  readonly includedConditions?: readonly Sql[];
  /** Only customers with this tag or in this segment, which must be the organization's. */
  readonly linkedTo?: Link | undefined;
  readonly search?: Search | undefined;
  readonly limit: number;
  /**
   * The last row of the previous page, which need not match the conditions. Its present place counts,
   * unless `place` says where it was; instants in microseconds since 1970.
   */
  readonly startingAfter?: { readonly id: bigint; readonly place?: bigint | undefined } | undefined;
};

/**
 * The rows that a search scans in the list's order, for each row of the page, before it uses another
 * index. Scan and search index cost the same if one row in 90 matches.
 */
const scannedRowsPerResult = 90;

/**
 * The scan begins with a sample. If the sample has too few matches to fill the page, the search
 * uses the index at once.
 */
const sampledRowsPerResult = 20;
const minMatchesPerResult = 0.1;

/** Reads a page, and one more row to detect a next page. */
export function pageStatement(list: KeysetList, place: bigint | undefined): Sql {
  const { selectList, conditions = [], includedConditions = [], linkedTo, search } = list;
  if (search !== undefined) {
    return searchStatement(list, place, {
      isMatch: [search.matches, ...includedConditions],
      found: { scan: scanOf(list), isFound: [search.indexed, ...includedConditions] },
    });
  }
  if (linkedTo !== undefined && includedConditions.length > 0) {
    const scan = scanOf({ ...list, linkedTo: undefined });
    const isFound = [isLinked(list.organizationId, linkedTo), ...includedConditions];
    return searchStatement(list, place, {
      isMatch: includedConditions,
      found: { scan, isFound },
    });
  }
  const { key, id, from, isListed } = scanOf(list);
  const table = raw(list.table);
  const all = [...conditions, ...includedConditions];
  const matching = sql`
    ${from}
    where ${join([isListed, ...all, ...isAfter(list, place, key, id)], ' and ')}
    order by ${key} desc, ${id} desc
    limit ${list.limit + 1}`;
  if (all.length === 0) {
    return sql`select ${raw(selectList)}, ${pagePlace(list, key)} ${matching}`;
  }
  // The conditions may exclude many rows. The subquery can be an index-only scan, so that only
  // rows of the page are read from the table.
  return sql`
    select ${raw(selectList)}, ${pagePlace(list, raw('page.place'))}
    from (select ${id} as id, ${asPlace(list, key)} ${matching}) as page
    join ${table} using (id)
    order by page.place desc, page.id desc`;
}

/** What a search looks for, and another scan that finds it if few rows match. */
type TwoScans = {
  readonly isMatch: readonly Sql[];
  readonly found: { readonly scan: Scan; readonly isFound: readonly Sql[] };
};

/**
 * A search scans rows in the list's order while the page is likely to fill. Otherwise it reads the
 * matches of another index and sorts them, which are few in this case. The planner's estimates
 * are not used, because a wrong one reads all rows.
 */
function searchStatement(
  list: KeysetList,
  place: bigint | undefined,
  { isMatch, found }: TwoScans,
): Sql {
  const { selectList, conditions = [], limit } = list;
  const { key, id, from, isListed } = scanOf(list);
  const pageSize = limit + 1;
  const maxScanned = pageSize * scannedRowsPerResult;
  const sampleSize = pageSize * sampledRowsPerResult;
  const afterHere = isAfter(list, place, key, id);
  const afterFound = isAfter(list, place, raw('place'), raw('id'));
  // The CTE is read row by row, no further than the page needs, and in order. `offset 0` keeps the
  // planner from a second scan in the list's order.
  return sql`
    with scanned as materialized (
      select ${id} as id, ${asPlace(list, key)}, (${join(isMatch, ' and ')}) as is_match
      ${from}
      where ${join([isListed, ...conditions, ...afterHere], ' and ')}
      order by ${key} desc, ${id} desc
      limit ${maxScanned}
    ), sample as materialized (
      select count(*) filter (where is_match) >= ${Math.ceil(pageSize * minMatchesPerResult)}
        or count(*) < ${sampleSize} as has_matches
      from (select is_match from scanned limit ${sampleSize}) as first_rows
    ), matched as materialized (
      select id, place from scanned
      where is_match and (select has_matches from sample)
      limit ${pageSize}
    ), outcome as materialized (
      select case when (select has_matches from sample)
        then (select count(*) from matched) = ${pageSize}
          or (select count(*) from scanned) < ${maxScanned}
        else false end as is_filled
    ), found as (
      select id, place
      from (
        select ${found.scan.id} as id, ${asPlace(list, found.scan.key)}
        ${found.scan.from}
        where not (select is_filled from outcome)
          and ${join([found.scan.isListed, ...conditions, ...found.isFound], ' and ')}
        offset 0) as matching
      ${afterFound.length === 0 ? sql`` : sql`where ${join(afterFound)}`}
      order by place desc, id desc
      limit ${pageSize}
    )
    select ${raw(selectList)}, ${pagePlace(list, raw('page.place'))}
    from (
      select id, place from matched where (select is_filled from outcome)
      union all
      select id, place from found) as page
    join ${raw(list.table)} using (id)
    order by page.place desc, page.id desc`;
}

type Scan = {
  readonly from: Sql;
  /** Qualified, because select lists use the same names for expressions. */
  readonly key: RawValue | Sql;
  readonly id: RawValue | Sql;
  readonly isListed: Sql;
};

/** The scan in the list's order: of the table, or of the links of a tag or segment. */
function scanOf({ table, organizationId, order, linkedTo }: KeysetList): Scan {
  const isOwn = sql`${raw(table)}.organization_id = ${organizationId}`;
  if (linkedTo === undefined) {
    return {
      from: sql`from ${raw(table)}`,
      key: raw(`${table}.${order.column}`),
      id: raw(`${table}.id`),
      isListed: isOwn,
    };
  }
  const { links, column } = linkTables[linkedTo.relation];
  return {
    from: sql`from ${raw(links)} join ${raw(table)} on ${raw(table)}.id = ${raw(links)}.customer_id`,
    key: raw(`${links}.customer_${order.column}`),
    id: raw(`${links}.customer_id`),
    isListed: sql`
      ${isOwn} and ${raw(`${links}.${column}`)} = ${linkedTo.id}
      and ${isOwnGroup(organizationId, linkedTo)}`,
  };
}

/** Whether a customer has a link, which is found by the primary key. */
const isLinked = (organizationId: bigint, link: Link): Sql => {
  const { links, column } = linkTables[link.relation];
  return sql`
    ${isOwnGroup(organizationId, link)}
    and exists (
      select from ${raw(links)} where customer_id = customers.id and ${raw(column)} = ${link.id})`;
};

const isOwnGroup = (organizationId: bigint, { relation, id }: Link): Sql => sql`
  exists (
    select from ${raw(linkTables[relation].groups)}
    where id = ${id} and organization_id = ${organizationId})`;

const linkTables = {
  tag: { links: 'customer_tags', column: 'tag_id', groups: 'tags' },
  segment: { links: 'segment_customers', column: 'segment_id', groups: 'segments' },
} as const;

/** The cast keeps the order of a column with a domain type in an outer query. */
function asPlace({ order }: KeysetList, key: Scan['key']): Sql {
  return sql`${key}::${raw(order.type)} as place`;
}

/** The place of a row for the next page: a column of the list's order as a bigint. */
export const placeOfRow = ({ type }: KeysetOrder, column: string): RawValue =>
  raw(type === 'timestamptz' ? microsecondsOf(column) : column);

const pagePlace = ({ order }: KeysetList, key: Scan['key']): Sql =>
  sql`${placeOfRow(order, sql`${key}`.text)} as page_place`;

function isAfter(
  { order, startingAfter }: KeysetList,
  place: bigint | undefined,
  key: Scan['key'],
  id: Scan['id'],
): Sql[] {
  if (place === undefined) return [];
  return [sql`(${key}, ${id}) < (${placeValue(order, place)}, ${startingAfter?.id})`];
}

function placeValue({ type }: KeysetOrder, place: bigint): Sql {
  return type === 'timestamptz' ? sql`${formatInstant(place)}::timestamptz` : sql`${place}::bigint`;
}
