import sql, { type Sql } from 'sql-template-tag';
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

/** Fields of cohorts together, for which a period counts if it is over. */
const total = (isOfGroup: Sql): Sql => sql`
  'customer_count', (select coalesce(sum(customers), 0) from cohorts where ${isOfGroup}),
  'periods', (
    select coalesce(json_agg(
      json_build_object(
        'cohort_customer_count', size, 'customer_count', customers,
        'purchase_count', purchases, 'revenue_in_cents', cents
      ) order by number
    ), '[]')
    from (
      select number, sum(size) as size, sum(customers) as customers, sum(purchases) as purchases, sum(cents) as cents
      from cells where is_complete and ${isOfGroup} group by number
    ) as total
  )`;

/** Null if there are too many cohorts. */
export function cohorts(asked: Asked): Sql {
  const {
    interval = 'month',
    group_by: groupBy,
    periods = '12',
    timezone = 'UTC',
  } = asked.parameters;
  const calendar = calendarOf(asked, interval);
  const group = groupBy === undefined ? sql`null::text` : columnOf(groupBy);
  return sql`
    with won as (
      select customer_id, oracle.period(created_at, ${calendar}) as cohort, ${group} as key
      from (${firstPurchases(asked)}) as first
      where ${isSelected(asked)} and ${isWithin(instant(asked.since), instant(asked.until))}
    ),
    bought as (
      select purchases.*, cohort, key, oracle.period(created_at, ${calendar}) - cohort as age
      from purchases join won using (customer_id)
      where organization_id = ${asked.organization} and ${isCounted(asked)}
    ),
    cohorts as (
      select cohort, key, count(*) as customers,
        greatest(oracle.period(${instant(asked.asOf)}, ${calendar}) - cohort, 0) as present
      from won group by cohort, key
    ),
    counted as (
      select cohort, key, age, count(distinct customer_id) as customers, count(*) as purchases,
        sum(purchase_value_in_cents) as cents
      from bought group by cohort, key, age
    ),
    cells as (
      select cohorts.cohort, cohorts.key, number, cohorts.customers as size,
        coalesce(counted.customers, 0) as customers, coalesce(purchases, 0) as purchases,
        coalesce(cents, 0) as cents,
        cohorts.cohort + number < oracle.period(${instant(asked.asOf)}, ${calendar}) as is_complete
      from cohorts
      cross join lateral generate_series(0, least(present, ${periods}::integer - 1)) as number
      left join counted on age = number and counted.cohort = cohorts.cohort
        and counted.key is not distinct from cohorts.key
    )
    select case when (select count(*) from cohorts) > 120 then null else json_build_object(
      'object', 'purchase_cohorts', 'interval', ${interval}::text, 'timezone', ${timezone}::text,
      'group_by', ${groupBy ?? null}::text, ${currencies},
      'totals', json_build_object(
        ${total(sql`true`)},
        'groups', (
          select coalesce(json_agg(json_build_object(
            'key', shown, ${total(sql`key is not distinct from shown`)}
          ) order by shown collate "C" nulls last), '[]')
          from (select distinct key as shown from cohorts where ${groupBy !== undefined}) as every_key
        )
      ),
      'rows', (
        select coalesce(json_agg(
          json_build_object(
            'cohort', oracle.shown(oracle.start_of(cohort, ${calendar})), 'key', key,
            'customer_count', customers,
            'periods', (
              select json_agg(
                json_build_object(
                  'customer_count', cells.customers, 'purchase_count', purchases,
                  'revenue_in_cents', cents, 'is_complete', is_complete
                ) order by number
              )
              from cells
              where cells.cohort = cohorts.cohort and cells.key is not distinct from cohorts.key
            )
          ) order by cohort, key collate "C" nulls last
        ), '[]')
        from cohorts
      )
    ) end
    from bought`;
}
