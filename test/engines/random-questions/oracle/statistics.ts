import sql, { type Sql } from 'sql-template-tag';
import { type Asked, amounts, calendarOf, columnOf, instant, matching, totals } from './filters.ts';

/** Adds the place of a group in the ranking. */
const ranked = sql`
  select key, count(*) as purchases, sum(purchase_value_in_cents) as cents,
    row_number() over (
      order by sum(purchase_value_in_cents) desc, count(*) desc, key collate "C" nulls last
    ) as place
  from keyed group by key`;

export function statistics(asked: Asked): Sql {
  const { group_by: groupBy, group_limit: limit = '10', timezone = 'UTC' } = asked.parameters;
  const key =
    groupBy === 'day'
      ? sql`to_char(oracle.local(created_at, ${timezone}), 'YYYY-MM-DD')`
      : columnOf(groupBy ?? 'status');
  return sql`
    with matching as (${matching(asked)}),
    keyed as (select *, ${key} as key from matching where ${groupBy !== undefined}),
    ranked as (${ranked})
    select json_build_object(
      'object', 'purchase_stats', ${totals},
      'group_by', ${groupBy ?? null}::text,
      'groups', (
        select coalesce(json_agg(
          json_build_object('key', key, ${amounts(sql`purchases`, sql`cents`)}) order by place
        ), '[]')
        from ranked where place <= ${limit}::integer
      ),
      'groups_truncated', (select count(*) from ranked) > ${limit}::integer
    )
    from matching`;
}

/** Null if there are too many periods. `interval` is one that the answer chose for `auto`. */
export function timeSeries(asked: Asked, interval: string): Sql {
  const { group_by: groupBy, group_limit: limit = '10', timezone = 'UTC' } = asked.parameters;
  const [since, until, asOf] = [asked.since, asked.until, asked.asOf].map(instant);
  const calendar = calendarOf(asked, interval);
  const max = groupBy === undefined ? 10_000 : 1_000;
  return sql`
    with matching as (
      select *, oracle.period(created_at, ${calendar}) as period from (${matching(asked)}) as purchase
    ),
    keyed as (select *, ${groupBy === undefined ? sql`null::text` : columnOf(groupBy)} as key from matching),
    ranked as (${ranked}),
    series as (
      select key, place from ranked where ${groupBy !== undefined} and place <= ${limit}::integer
      union all
      select null, 1 where ${groupBy === undefined}
    ),
    counted as (
      select place, period, count(*) as purchases, count(distinct customer_id) as customers,
        sum(purchase_value_in_cents) as cents
      from keyed join series on keyed.key is not distinct from series.key
      group by place, period
    ),
    bounds as (
      select
        coalesce(oracle.period(${since}, ${calendar}), min(period)) as first,
        coalesce(oracle.period(${until}, ${calendar}), max(period)) as last
      from matching
    ),
    allowed as (
      select * from bounds
      where last - first < ${max}::integer and coalesce(${since} <= ${until}, true)
    ),
    -- A clock that goes back may put a later purchase into an earlier period.
    numbers as (
      select generate_series(
        least(first, (select min(period) from counted)), greatest(last, (select max(period) from counted))
      ) as number
      from allowed
    ),
    starts as (
      select number, oracle.start_of(number, ${calendar}) as start from numbers
    ),
    periods as (
      select number, start, coalesce(
        lead(start) over (order by number),
        oracle.start_of(number + 1, ${calendar}), oracle.start_of(number + 2, ${calendar})
      ) as ending
      from starts where start is not null
    )
    select case
      when (select last - first >= ${max}::integer from bounds) and coalesce(${since} <= ${until}, true)
      then null
      else json_build_object(
        'object', 'purchase_timeseries', 'interval', ${interval}::text, 'timezone', ${timezone}::text,
        ${totals},
        'group_by', ${groupBy ?? null}::text,
        'series', (
          select coalesce(json_agg(
            json_build_object('key', key, 'periods', (
              select coalesce(json_agg(
                json_build_object(
                  'starts_at', oracle.shown(start),
                  'customer_count', coalesce(customers, 0),
                  ${amounts(sql`coalesce(purchases, 0)`, sql`coalesce(cents, 0)`)},
                  'is_complete', not coalesce(${since} > start, false) and ending <= case
                    when ${until} < ${asOf} then ${until} + interval '1 microsecond' else ${asOf}
                  end
                ) order by number
              ), '[]')
              from periods left join counted on period = number and counted.place = series.place
            )) order by place
          ), '[]')
          from series
        ),
        'series_truncated', ${groupBy !== undefined} and (select count(*) from ranked) > ${limit}::integer
      )
    end
    from matching`;
}
