-- Local time and periods, by the time zones of Postgres. Years outside 1900 to 2099 are UTC.
create schema oracle;

create function oracle.local(instant timestamptz, zone text) returns timestamp
language sql immutable return instant at time zone
  case
    when instant >= timestamptz '1900-01-01 00:00:00Z' and instant < timestamptz '2100-01-01 00:00:00Z'
    then zone else 'UTC'
  end;

-- The local time between two instants in days, rounded up.
create function oracle.days(since timestamptz, until timestamptz, zone text) returns bigint
language sql immutable return case
  when since > until then 0
  when since is null or until is null then null
  else greatest(1, ceil((extract(epoch from oracle.local(until, zone) - oracle.local(since, zone)) + 0.000001) / 86400))
end;

-- An instant at which clocks show `wanted`; after it if they skip `wanted`.
create function oracle.instant_near(wanted timestamp, zone text) returns timestamptz
language sql immutable return wanted at time zone
  case when wanted >= timestamp '1900-01-01' and wanted < timestamp '2100-01-01' then zone else 'UTC' end;

-- The seconds around an instant at which clocks change, found by the minutes of two days.
create function oracle.seconds_of_change(near timestamptz, wanted timestamp, zone text) returns setof timestamptz
language sql immutable begin atomic
  select generate_series(first - interval '1 minute', first, interval '1 second')
  from (
    select min(instant) as first
    from generate_series(
      date_trunc('minute', near, 'UTC') - interval '25 hours', near + interval '25 hours', interval '1 minute'
    ) as instant
    where oracle.local(instant, zone) >= wanted
  ) as minute;
end;

-- The first instant at which clocks show `wanted` or later.
create function oracle.first_instant(wanted timestamp, zone text) returns timestamptz
language sql immutable begin atomic
  select coalesce(
    (
      -- Clocks of St. John's went back by two hours in 1988, and those of Casey by three in 2010.
      select min(instant)
      from unnest(array[near - interval '3 hours', near - interval '2 hours', near - interval '1 hour', near]) as instant
      where oracle.local(instant, zone) = wanted
    ),
    (
      select min(instant) from oracle.seconds_of_change(near, wanted, zone) as instant
      where oracle.local(instant, zone) >= wanted
    )
  )
  from oracle.instant_near(wanted, zone) as near;
end;

-- The last instant at which clocks show `wanted` or earlier.
create function oracle.last_instant(wanted timestamp, zone text) returns timestamptz
language sql immutable begin atomic
  select coalesce(
    (
      select max(instant)
      from unnest(array[
        near - interval '1 hour', near, near + interval '1 hour', near + interval '2 hours',
        near + interval '3 hours'
      ]) as instant
      where oracle.local(instant, zone) = wanted
    ),
    (
      select min(instant) - interval '1 microsecond'
      from oracle.seconds_of_change(near, wanted, zone) as instant
      where oracle.local(instant, zone) >= wanted
    )
  )
  from oracle.instant_near(wanted, zone) as near;
end;

-- How many periods have passed since year 1. The hour that clocks repeat is two periods. `ahead` are the
-- days by which weeks begin before Monday.
create function oracle.period(instant timestamptz, length text, zone text, ahead integer) returns bigint
language sql immutable return
  case length
    when 'hour' then floor((
      extract(epoch from instant) + mod(
        mod(extract(epoch from oracle.local(instant, zone) - instant at time zone 'UTC'), 3600) + 3600, 3600
      )
    ) / 3600)::bigint
    when 'day' then oracle.local(instant, zone)::date - date '0001-01-01'
    when 'week' then (oracle.local(instant, zone)::date - date '0001-01-01' + ahead) / 7
    else (
      (extract(year from oracle.local(instant, zone)) - 1) * 12
      + extract(month from oracle.local(instant, zone)) - 1
    )::bigint / case length when 'month' then 1 when 'quarter' then 3 else 12 end
  end;

-- The first instant of a period, of year 1 or later; null if the calendar skips it.
create function oracle.start_of(number bigint, length text, zone text, ahead integer) returns timestamptz
language sql immutable begin atomic
  select
    case
      when length <> 'hour' then (
        select greatest(first, timestamptz '0001-01-01 00:00:00Z')
        from oracle.first_instant(
          case length
            when 'day' then timestamp '0001-01-01' + number * interval '1 day'
            when 'week' then timestamp '0001-01-01' + (number * 7 - ahead) * interval '1 day'
            else timestamp '0001-01-01' + number
              * case length when 'month' then interval '1 month' when 'quarter' then interval '3 months' else interval '1 year' end
          end, zone
        ) as first
        where oracle.period(first, length, zone, ahead) = number
      )
      else (
        with near as (select timestamptz 'epoch' + number * interval '1 hour' as near)
        select min(instant)
        from (
          select near - quarters * interval '15 minutes' as instant
          from near, generate_series(-3, 4) as quarters
          union all
          -- Local mean times differ by seconds.
          select near - mod(
            mod(extract(epoch from oracle.local(near, zone) - near at time zone 'UTC'), 3600) + 3600, 3600
          ) * interval '1 second'
          from near
        ) as candidate
        where oracle.period(instant, 'hour', zone, 0) = number
      )
    end;
end;

create function oracle.shown(instant timestamptz) returns text
language sql immutable return to_char(instant at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');

-- Rounded half away from zero.
create function oracle.average(cents numeric, purchases bigint) returns numeric
language sql immutable return
  case when purchases = 0 then 0
  else sign(cents) * div(2 * abs(cents) + purchases, 2 * purchases) end;

-- How many of these customers are there at least twice.
create function oracle.repeated(customers bigint[]) returns bigint
language sql immutable begin atomic
  select count(*) from (
    select from unnest(customers) as customer group by customer having count(*) > 1
  ) as repeated;
end;

-- The smallest value that at least so many tenths of the values do not exceed; 0 without any.
create function oracle.quantile(cents bigint[], tenths integer) returns bigint
language sql immutable begin atomic
  select coalesce(min(value), 0) from (
    select value, count(*) over (order by value) as not_above from unnest(cents) as value
  ) as counted
  where 10 * not_above >= tenths * cardinality(cents);
end;

-- The codes of coupons, each once; null without any.
create function oracle.codes(coupons jsonb) returns text[]
language sql immutable begin atomic
  select array_agg(distinct code #>> '{}')
  from jsonb_path_query(coupons, 'strict $[*] ? (@.code.type() == "string" || @.code.type() == "number")') as coupon,
    lateral (select coupon -> 'code' as code) as of_coupon
  where octet_length(coupons::text) <= 4096
    and case jsonb_typeof(code) when 'string' then true else scale((code #>> '{}')::numeric) = 0 end;
end;
