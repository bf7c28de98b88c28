import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import {
  type Asked,
  calendarOf,
  columnOf,
  currencies,
  firstPurchases,
  instant,
  isCounted,
  isSelected,
  isWithin,
} from './filters.ts';

const periods = ['hour', 'day', 'week', 'month', 'quarter', 'year'];
const defaults = [
  'purchase_count',
  'revenue_in_cents',
  'average_ticket_in_cents',
  'customer_count',
];

/** The sums of the rows of one side. */
function measureOf(name: string, side: number): Sql {
  const ofSide = sql`filter (where side = ${raw(String(side))})`;
  const revenue = sql`coalesce(sum(purchase_value_in_cents) ${ofSide}, 0)`;
  switch (name) {
    case 'purchase_count':
      return sql`count(*) ${ofSide}`;
    case 'revenue_in_cents':
      return revenue;
    case 'average_ticket_in_cents':
      return sql`oracle.average(${revenue}, count(*) ${ofSide})`;
    case 'customer_count':
      return sql`count(distinct customer_id) ${ofSide}`;
    case 'new_customer_count':
      return sql`count(*) filter (where side = ${raw(String(side))} and is_first)`;
    case 'returning_customer_count':
      return sql`count(distinct customer_id) filter (where side = ${raw(String(side))} and not is_first)`;
    case 'repeat_customer_count':
      return sql`oracle.repeated(array_agg(customer_id) ${ofSide})`;
    case 'median_value_in_cents':
      return sql`oracle.quantile(array_agg(purchase_value_in_cents) ${ofSide}, 5)`;
    case 'p90_value_in_cents':
      return sql`oracle.quantile(array_agg(purchase_value_in_cents) ${ofSide}, 9)`;
    default:
      return sql`coalesce(sum(${raw(name)}) ${ofSide}, 0)`;
  }
}

/** The key by which rows are grouped and ordered, and the JSON of a key. */
function dimensionOf(
  asked: Asked,
  name: string,
): { key: Sql; isText: boolean; shown: (key: Sql) => Sql } {
  const { timezone = 'UTC' } = asked.parameters;
  const local = sql`oracle.local(created_at, ${timezone})`;
  if (periods.includes(name)) {
    const calendar = calendarOf(asked, name);
    const months = { quarter: 3, year: 12 }[name];
    const ofCompared =
      asked.parameters.compare_to === 'previous_month' && months !== undefined
        ? // A quarter is compared with its months, each of them a month before.
          sql`2 * ((oracle.period(created_at, ${calendarOf(asked, 'month')}) + 1) / ${months}::integer)`
        : sql`(select "row" from compared_rows where number = number_of_period)`;
    const row = sql`case when side = 0 then 2 * number_of_period else ${ofCompared} end`;
    return {
      key: row,
      isText: false,
      shown: (key) => sql`oracle.shown(oracle.start_of(floor(${key} / 2.0)::bigint, ${calendar}))`,
    };
  }
  const same = (key: Sql, isText = false) => ({ key, isText, shown: (value: Sql) => value });
  switch (name) {
    case 'customer_type':
      return {
        key: sql`(not is_first)::integer`,
        isText: false,
        shown: (key) => sql`case ${key} when 0 then 'new' else 'returning' end`,
      };
    case 'customer':
      return { key: raw('customer_id'), isText: false, shown: (key) => sql`'customer:' || ${key}` };
    case 'weekday':
      return same(sql`extract(isodow from ${local})`);
    case 'hour_of_day':
      return same(sql`extract(hour from ${local})`);
    default:
      return same(columnOf(name), true);
  }
}

const stepOf = (comparison: string | undefined): string =>
  ({ previous_month: '1 month', previous_year: '1 year', previous_year_weekdays: '364 days' })[
    comparison ?? ''
  ] ?? '0';

/**
 * The row of each compared period, as a table. The rows of the periods of the report are their numbers, doubled. A
 * period that no period of the report is compared with has a row of its own, after that of the same number.
 */
function comparedRows({ parameters }: Asked, length: string, calendar: Sql): Sql {
  const { compare_to: comparison, timezone = 'UTC' } = parameters;
  const first = (of: Sql) => sql`(select oracle.period(since, ${calendar}) from ${of})`;
  const last = (of: Sql) => sql`(select oracle.period(until, ${calendar}) from ${of})`;
  const local = sql`oracle.local(start, ${timezone})`;
  const label =
    length === 'hour'
      ? sql`date_trunc('hour', ${local})`
      : sql`timestamp '0001-01-01' + number * ${length === 'quarter' ? '3 months' : `1 ${length}`}::interval`;
  const listed = (from: Sql, to: Sql) => sql`
    select *, row_number() over (partition by label order by number) as repetition
    from (
      select *, ${label} as label, row_number() over (order by number) as place
      from (
        select number, oracle.start_of(number, ${calendar}) as start
        from generate_series(${from}, ${to}) as number
      ) as period
      where start is not null
    ) as placed`;
  const isByLabel = comparison === 'previous_month' || comparison === 'previous_year';
  const earlier = sql`(ours.label - ${stepOf(comparison)}::interval)`;
  const isMatch = isByLabel
    ? sql`theirs.label = ${earlier} and theirs.repetition = ours.repetition
        and extract(day from ${earlier}) = extract(day from ours.label)
        and ours.number <= ${last(sql`current`)}`
    : sql`theirs.place = ours.place`;
  return sql`
    select theirs.number, coalesce(2 * ours.number, 2 * theirs.number + 1) as "row"
    from (${listed(first(sql`compared`), last(sql`compared`))}) as theirs
    left join (${listed(
      first(sql`current`),
      sql`${last(sql`current`)} + ${last(sql`compared`)} - ${first(sql`compared`)} + 3`,
    )}) as ours on ${isMatch}`;
}

/** The bounds of the compared period, as a table. */
function comparedBounds({ parameters }: Asked): Sql {
  const { compare_to: comparison, timezone = 'UTC' } = parameters;
  // Postgres has no day as early as 8000 years before.
  const days = (local: Sql) => sql`least(days, ${local}::date - date '0001-01-01' + 2)`;
  const moved = (local: Sql) =>
    comparison === 'previous_period'
      ? sql`(${local} - ${days(local)} * interval '1 day')`
      : sql`(${local} - ${stepOf(comparison)}::interval)`;
  // Earlier days than those of 1900 are days of UTC, but not beside a period of local time.
  const firstZoned = sql`timestamptz '1900-01-01 00:00:00Z'`;
  const instantOf = (local: Sql, find: Sql) => sql`case
    when ${local} < timestamp '1900-01-01' and since >= ${firstZoned}
    then (${local} - (oracle.local(${firstZoned}, ${timezone}) - timestamp '1900-01-01')) at time zone 'UTC'
    else ${find}(${local}, ${timezone})
  end`;
  const clamped = (instant: Sql) => sql`
    least(greatest(${instant}, timestamptz '0001-01-01 00:00:00Z'), timestamptz '9999-12-31 23:59:59.999999Z')`;
  const movedUntil = sql`case
    when since > until and moved_since <= moved_until then moved_since - interval '1 microsecond'
    else moved_until
  end`;
  return sql`
    select ${clamped(sql`moved_since`)} as since, ${clamped(movedUntil)} as until
    from (
    select since, until,
      case when is_moved then ${instantOf(moved(sql`local_since`), sql`oracle.first_instant`)}
        else since - least(until - since, since - timestamptz '0001-01-01 00:00:00Z') - interval '1 microsecond'
      end as moved_since,
      case when is_moved then ${instantOf(moved(sql`local_until`), sql`oracle.last_instant`)}
        else since - interval '1 microsecond' end as moved_until
    from (
      select *,
        case when begins_day then date_trunc('day', local_of_since) else local_of_since end as local_since,
        local_until::date - local_of_since::date + 1 as days,
        ${comparison !== 'previous_period'} or begins_day as is_moved
      from (
        select *, local_of_since::date > oracle.local(since - interval '1 microsecond', ${timezone})::date as begins_day
        from (
          select since, until, oracle.local(since, ${timezone}) as local_of_since,
            oracle.local(until, ${timezone}) as local_until
          from current
        ) as bounds
      ) as local
    ) as rule
    ) as moved`;
}

/** A purchase has a row for each of its codes. */
const byCoupon = sql`left join lateral unnest(oracle.codes(coupons)) as coupon on true`;

/** Null if there are too many periods. */
export function report(asked: Asked): Sql {
  const { parameters } = asked;
  const { timezone = 'UTC', limit = '100', compare_to: comparison } = parameters;
  const measures = parameters.measures?.split(',') ?? defaults;
  const groupBy = parameters.group_by?.split(',') ?? [];
  const dimensions = groupBy.map((name) => dimensionOf(asked, name));
  const period = groupBy.find((name) => periods.includes(name));
  const calendar = calendarOf(asked, period ?? 'day');
  const order = parameters.order_by ?? period ?? `-${measures[0]}`;
  const isCompared = comparison !== undefined;
  const ofSide = (side: number) =>
    measures.map((name) => sql`'${raw(name)}', ${raw(`${name}_${side}`)}`);
  const names = [0, 1].flatMap((side) => measures.map((name) => `${name}_${side}`));
  const sums = [0, 1].flatMap((side) =>
    measures.map((name) => sql`${measureOf(name, side)} as ${raw(`${name}_${side}`)}`),
  );
  const fields = sql`${join(ofSide(0))}
    ${isCompared ? sql`, 'compared', json_build_object(${join(ofSide(1))})` : empty}`;
  const keys = groupBy.map((_, index) => raw(`d${index}`));
  const sorted = keys.map((key, index) =>
    dimensions[index]?.isText ? sql`${key} collate "C"` : key,
  );
  const by = order.replace('-', '');
  const first = groupBy.includes(by) ? sorted[groupBy.indexOf(by)] : raw(`${by}_0`);
  const direction = raw(order.startsWith('-') ? 'desc' : 'asc');
  const ties = sorted.map((key) => sql`${key} nulls last`);
  const isOfPeriodsAlone = groupBy.length === 1 && period !== undefined;
  const all = isOfPeriodsAlone ? everyPeriod(calendar, names.map(raw)) : sql`select * from grouped`;
  const zero = names.map((name) => sql`coalesce(${raw(name)}, 0) as ${raw(name)}`);
  const [since, until, asOf] = [asked.since, asked.until, asked.asOf].map(instant);
  return sql`
    with current as (
      select ${since} as since, ${isCompared ? sql`coalesce(${until}, ${asOf})` : (until as Sql)} as until
    ),
    compared as (${isCompared ? comparedBounds(asked) : sql`select null::timestamptz as since, null::timestamptz as until where false`}),
    compared_rows as (${isCompared && period !== undefined ? comparedRows(asked, period, calendar) : sql`select null::bigint as number, null::bigint as "row"`}),
    sides as (select 0 as side, * from current union all select 1, * from compared),
    firsts as (select id from (${firstPurchases(asked)}) as first),
    matching as (
      select purchases.*, side, oracle.period(created_at, ${calendar}) as number_of_period, purchases.id in (select id from firsts) as is_first
      from purchases
      join (select side, since as side_since, until as side_until from sides) as bounds
        on ${isWithin(raw('side_since'), raw('side_until'))}
      where organization_id = ${asked.organization} and ${isCounted(asked)} and ${isSelected(asked)}
    ),
    keyed as (select *, ${join([sql`1 as one`, ...dimensions.map(({ key }, index) => sql`${key} as ${keys[index] as Sql}`)])} from matching ${groupBy.includes('coupon') ? byCoupon : empty}),
    grouped as (
      select ${join([...keys, ...sums])} from keyed
      ${keys.length === 0 ? sql`where false group by one` : sql`group by ${join(keys)}`}
    ),
    every as (${all}),
    ordered as (
      select *, row_number() over (order by ${join([...(groupBy.length === 0 ? [] : [sql`${first as Sql} ${direction} nulls last`]), ...ties, sql`1`])}) as place
      from (select ${join([...keys, ...zero])} from every) as row
    ),
    bounds as (
      select coalesce(oracle.period(since, ${calendar}), (select min(oracle.period(created_at, ${calendar})) from matching where side = 0)) as first,
        coalesce(oracle.period(until, ${calendar}), (select max(oracle.period(created_at, ${calendar})) from matching where side = 0)) as last,
        coalesce(since <= until, true) as is_ordered
      from current
    )
    select case
      when ${period !== undefined} and (select is_ordered and last - first >= 1000 from bounds) then null
      else json_build_object(
        'object', 'purchase_report', 'timezone', ${timezone}::text,
        'measures', ${JSON.stringify(measures)}::json, 'group_by', ${JSON.stringify(groupBy)}::json,
        'period', (select json_build_object('since', oracle.shown(since), 'until', oracle.shown(until), 'days', oracle.days(since, until, ${timezone})) from current),
        'compared_period', (select json_build_object('since', oracle.shown(since), 'until', oracle.shown(until), 'days', oracle.days(since, until, ${timezone})) from compared),
        ${currencies},
        'totals', (
          select json_build_object(${fields}) from (select ${join(sums)} from matching) as total
        ),
        'rows', (
          select coalesce(json_agg(json_build_object(
            ${join([...groupBy.map((name, index) => sql`'${raw(name)}', ${dimensions[index]?.shown(keys[index] as Sql) as Sql}`), fields])}
          ) order by place), '[]')
          from ordered where place <= ${limit}::integer
        ),
        'rows_truncated', (select count(*) from ordered) > ${limit}::integer
      )
    end
    from matching`;
}

/** The groups, with all periods between the bounds and the groups. */
function everyPeriod(calendar: Sql, sums: readonly Sql[]): Sql {
  const edge = (bound: string) => sql`oracle.period(${raw(bound)}, ${calendar})`;
  return sql`
    select coalesce(d0, 2 * number) as d0, ${join(sums)}
    from (
      select generate_series(
        least(${edge('since')}, ${edge('until')}, (select min(d0) / 2 from grouped where d0 % 2 = 0)),
        greatest(${edge('since')}, ${edge('until')}, (select max(d0) / 2 from grouped where d0 % 2 = 0))
      ) as number
      from current
      where coalesce(since <= until, true)
        and (exists (select from grouped) or since is not null and until is not null)
    ) as numbers
    full join grouped on d0 = 2 * number
    where d0 is not null or oracle.start_of(number, ${calendar}) is not null`;
}
