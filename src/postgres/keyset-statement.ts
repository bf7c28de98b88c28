import sql, { join, type RawValue, raw, type Sql } from 'sql-template-tag';
import { formatInstant } from '../domain/instant.ts';
import { containsText, hasGramsOf } from './search.ts';

/** What a list is sorted by, highest first, before the id, also descending. */
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

/** Which page of which list; `limit` rows at most. */
export type KeysetList = {
  readonly table: KeysetTable;
  /** Expressions on the table's qualified columns. */
  readonly selectList: string;
  readonly organizationId: bigint;
  readonly order: KeysetOrder;
  readonly conditions?: readonly Sql[];
  /** Only customers that carry this tag, or are in this segment, of the organization's. */
  readonly linkedTo?: Link | undefined;
  /** Only rows whose `search_text` contains this, case and accents aside. */
  readonly search?: string | undefined;
  readonly limit: number;
  /** The last row of the page before; found without the conditions. */
  readonly startingAfter?: bigint | undefined;
};

/**
 * How many rows a search looks at in the list's order, for each row that a page can
 * have, before it asks the index for all that match. Either way costs the same where
 * one row in so many matches; of 200,000 rows those are some thousands.
 */
const rowsLookedAtForEach = 90;

/**
 * How many of those tell whether it is worth looking at the others: where so few rows
 * match that the page will hardly be filled, the index is asked at once.
 */
const rowsTriedForEach = 20;
const leastMatchesForEach = 0.1;

/** The statement that reads a page, and one row more where there is one. */
export function pageStatement(list: KeysetList, position: bigint | undefined): Sql {
  if (list.search !== undefined) return searchStatement(list, list.search, position);
  const { selectList, conditions = [] } = list;
  const { key, id, from, isListed } = walkOf(list);
  const table = raw(list.table);
  const matching = sql`
    ${from}
    where ${join([isListed, ...conditions, ...isAfter(list, position, key, id)], ' and ')}
    order by ${key} desc, ${id} desc
    limit ${list.limit + 1}`;
  if (conditions.length === 0) return sql`select ${raw(selectList)} ${matching}`;
  // Many rows may be looked at for each that is on the page: as far as possible
  // that happens within indexes, and only the page's own rows are read whole.
  return sql`
    select ${raw(selectList)}
    from (select ${id} as id, ${asPosition(list, key)} ${matching}) as page
    join ${table} using (id)
    order by page.position desc, page.id desc`;
}

/**
 * A search walks the list's order as long as it may expect to fill the page, and
 * otherwise asks the index, whose rows come in no order and are sorted: those are few,
 * or else the walk would have met them. No estimate of how frequent a text is decides,
 * for a wrong one reads everything.
 */
function searchStatement(list: KeysetList, text: string, position: bigint | undefined): Sql {
  const { selectList, conditions = [], limit } = list;
  const { key, id, from, isListed } = walkOf(list);
  const most = limit + 1;
  const mostLookedAt = most * rowsLookedAtForEach;
  const tried = most * rowsTriedForEach;
  const listed = join([isListed, ...conditions], ' and ');
  const afterHere = isAfter(list, position, key, id);
  const afterFound = isAfter(list, position, raw('position'), raw('id'));
  // The walk is read row by row, no further than the page needs, and in its order.
  // `offset 0` keeps the planner from walking once more where the index is asked.
  return sql`
    with walked as materialized (
      select ${id} as id, ${asPosition(list, key)}, ${containsText(text)} as is_match
      ${from}
      where ${join([listed, ...afterHere], ' and ')}
      order by ${key} desc, ${id} desc
      limit ${mostLookedAt}
    ), trial as materialized (
      select count(*) filter (where is_match) >= ${Math.ceil(most * leastMatchesForEach)}
        or count(*) < ${tried} as is_promising
      from (select is_match from walked limit ${tried}) as first_rows
    ), met as materialized (
      select id, position from walked
      where is_match and (select is_promising from trial)
      limit ${most}
    ), answer as materialized (
      select case when (select is_promising from trial)
        then (select count(*) from met) = ${most}
          or (select count(*) from walked) < ${mostLookedAt}
        else false end as is_met
    ), found as (
      select id, position
      from (
        select ${id} as id, ${asPosition(list, key)}
        ${from}
        where not (select is_met from answer) and ${listed}
          and ${hasGramsOf(text)} and ${containsText(text)}
        offset 0) as matching
      ${afterFound.length === 0 ? sql`` : sql`where ${join(afterFound)}`}
      order by position desc, id desc
      limit ${most}
    )
    select ${raw(selectList)}
    from (
      select id, position from met where (select is_met from answer)
      union all
      select id, position from found) as page
    join ${raw(list.table)} using (id)
    order by page.position desc, page.id desc`;
}

type Walk = {
  readonly from: Sql;
  /** Qualified: select lists give the same names to what is read of the columns. */
  readonly key: RawValue | Sql;
  readonly id: RawValue | Sql;
  readonly isListed: Sql;
};

/** Where a list's rows stand in its order: in their table, or beside their tag's or segment's links. */
function walkOf({ table, organizationId, order, linkedTo }: KeysetList): Walk {
  const isOwn = sql`${raw(table)}.organization_id = ${organizationId}`;
  if (linkedTo === undefined) {
    return {
      from: sql`from ${raw(table)}`,
      key: raw(`${table}.${order.column}`),
      id: raw(`${table}.id`),
      isListed: isOwn,
    };
  }
  const { links, column, groups } = linkTables[linkedTo.relation];
  return {
    from: sql`from ${raw(links)} join ${raw(table)} on ${raw(table)}.id = ${raw(links)}.customer_id`,
    key: raw(`${links}.customer_${order.column}`),
    id: raw(`${links}.customer_id`),
    isListed: sql`
      ${isOwn} and ${raw(`${links}.${column}`)} = ${linkedTo.id}
      and exists (
        select from ${raw(groups)} where id = ${linkedTo.id} and organization_id = ${organizationId})`,
  };
}

const linkTables = {
  tag: { links: 'customer_tags', column: 'tag_id', groups: 'tags' },
  segment: { links: 'segment_customers', column: 'segment_id', groups: 'segments' },
} as const;

/** Cast: an order by a column of a domain does not carry over to an outer query. */
function asPosition({ order }: KeysetList, key: Walk['key']): Sql {
  return sql`${key}::${raw(order.type)} as position`;
}

function isAfter(
  { order, startingAfter }: KeysetList,
  position: bigint | undefined,
  key: Walk['key'],
  id: Walk['id'],
): Sql[] {
  if (position === undefined) return [];
  return [sql`(${key}, ${id}) < (${positionValue(order, position)}, ${startingAfter})`];
}

function positionValue({ type }: KeysetOrder, position: bigint): Sql {
  return type === 'timestamptz'
    ? sql`${formatInstant(position)}::timestamptz`
    : sql`${position}::bigint`;
}
