import sql, { join, raw, type Sql } from 'sql-template-tag';

/** A question as parameters of a URL, with ids and instants as Postgres reads them. */
export type Asked = {
  readonly organization: bigint;
  readonly parameters: Readonly<Record<string, string>>;
  /** The texts of filters, of which a purchase has one. */
  readonly texts: Readonly<Record<string, readonly string[]>>;
  readonly customer: bigint | null;
  readonly since: string | null;
  readonly until: string | null;
  /** The instant of the answer's data. */
  readonly asOf: string;
};

export const columnOf = (dimension: string): Sql =>
  raw(dimension === 'status' ? 'payment_status' : dimension);

/** A condition of the payment statuses. */
export function isCounted({ parameters: { status = 'any' } }: Asked): Sql {
  return status === 'any' ? sql`true` : sql`payment_status = any(${status.split(',')}::text[])`;
}

/** The first purchase of each customer with the payment statuses of the question. */
export const firstPurchases = (asked: Asked): Sql => sql`
  select distinct on (customer_id) * from purchases
  where organization_id = ${asked.organization} and ${isCounted(asked)}
  order by customer_id, created_at, id`;

/** A condition of all filters but payment statuses and bounds. */
export function isSelected(asked: Asked): Sql {
  const { parameters, texts, customer } = asked;
  const { platform, min_value_in_cents: min, max_value_in_cents: max, without } = parameters;
  const { weekday, hour_of_day: hour, timezone = 'UTC' } = parameters;
  const local = sql`oracle.local(created_at, ${timezone})`;
  const conditions: Sql[] = [];
  const { customer_type: type } = parameters;
  if (type !== undefined) {
    const isFirst = sql`id in (select id from (${firstPurchases(asked)}) as first)`;
    conditions.push(type === 'new' ? isFirst : sql`not ${isFirst}`);
  }
  if (customer !== null) conditions.push(sql`customer_id = ${customer}`);
  if (platform !== undefined) conditions.push(sql`platform = any(${platform.split(',')}::text[])`);
  if (min !== undefined) conditions.push(sql`purchase_value_in_cents >= ${min}::bigint`);
  if (max !== undefined) conditions.push(sql`purchase_value_in_cents <= ${max}::bigint`);
  for (const name of without?.split(',') ?? []) {
    conditions.push(
      name === 'coupon' ? sql`oracle.codes(coupons) is null` : sql`${columnOf(name)} is null`,
    );
  }
  const numbers = (list: string) => list.split(',').map(Number);
  if (weekday !== undefined) {
    conditions.push(sql`extract(isodow from ${local}) = any(${numbers(weekday)}::integer[])`);
  }
  if (hour !== undefined) {
    conditions.push(sql`extract(hour from ${local}) = any(${numbers(hour)}::integer[])`);
  }
  for (const [name, wanted] of Object.entries(texts)) {
    if (name === 'not') {
      conditions.push(...wanted.map(isNot));
      continue;
    }
    if (name === 'coupon') {
      conditions.push(sql`oracle.codes(coupons) && ${[...wanted]}::text[]`);
      continue;
    }
    // Codes of currencies have any case, also as stored.
    const isCode = name === 'currency';
    const column = isCode ? sql`upper(currency)` : raw(name);
    const exact = isCode ? wanted.map((code) => code.toUpperCase()) : wanted;
    conditions.push(sql`${column} = any(${[...exact]}::text[])`);
  }
  return conditions.length === 0 ? sql`true` : sql`(${join(conditions, ' and ')})`;
}

/** A condition of purchases without a value. */
function isNot(excluded: string): Sql {
  const [name = '', ...rest] = excluded.split(':');
  const value = rest.join(':');
  if (name === 'coupon') return sql`not coalesce(${value} = any(oracle.codes(coupons)), false)`;
  return name === 'currency'
    ? sql`upper(currency) is distinct from ${value.toUpperCase()}`
    : sql`${columnOf(name)} is distinct from ${value}`;
}

/** A condition of bounds, which are expressions. */
export const isWithin = (since: Sql, until: Sql): Sql => sql`
  created_at >= coalesce(${since}, '-infinity') and created_at <= coalesce(${until}, 'infinity')`;

export const instant = (text: string | null): Sql => sql`${text}::timestamptz`;

/** The matching purchases. */
export const matching = (asked: Asked): Sql => sql`
  select * from purchases
  where organization_id = ${asked.organization} and ${isCounted(asked)} and ${isSelected(asked)}
    and ${isWithin(instant(asked.since), instant(asked.until))}`;

/** The arguments of the functions of periods. */
export function calendarOf({ parameters }: Asked, length: string): Sql {
  const { timezone = 'UTC', week_start: weekStart = 'monday' } = parameters;
  const ahead = { monday: 0, sunday: 1, saturday: 2 }[weekStart] ?? 0;
  return sql`${length}::text, ${timezone}::text, ${length === 'week' ? ahead : 0}::integer`;
}

/** Fields of sums over the rows of a group. */
export const amounts = (purchases: Sql, cents: Sql): Sql => sql`
  'purchase_count', ${purchases}, 'revenue_in_cents', ${cents},
  'average_ticket_in_cents', oracle.average(${cents}, ${purchases})`;

/** Fields of the currencies of rows. */
export const currencies = sql`
  'currency', case when count(distinct currency) = 1 then min(currency) end,
  'mixed_currencies', count(distinct currency) > 1`;

/** Fields of the totals of matching purchases. */
export const totals = sql`
  ${amounts(sql`count(*)`, sql`coalesce(sum(purchase_value_in_cents), 0)`)},
  'customer_count', count(distinct customer_id), ${currencies}`;
