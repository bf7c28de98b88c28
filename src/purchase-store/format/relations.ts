import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { type Dictionary, type Entries, entriesOfBase, entriesOfDelta } from './layout.ts';
import { previousQuarterNames } from './previous-purchases.ts';

/** The catalogs of the two attached files that hold an organization's purchases. */
export type StoreCatalogs = { readonly base: string; readonly delta: string };

/**
 * The current purchases that match a condition, with the columns of a delta: purchases of the
 * base that the delta does not supersede, and the delta's own. Superseded rows equal the base's,
 * so the condition may also limit them: only a few ids are then joined.
 */
export function currentPurchases({ base, delta }: StoreCatalogs, condition: Sql = sql`true`): Sql {
  return sql`(
    select * exclude (${raw(previousQuarterNames)}) from ${raw(base)}.purchase
    anti join (
      select id from ${raw(delta)}.change as purchase where sign < 0 and (${condition})
    ) as superseded using (id)
    where ${condition}
    union all
    select * exclude (sign) from ${raw(delta)}.change as purchase where sign > 0 and (${condition})
  )`;
}

/**
 * Selects columns of the matching rows of both files, and `sign`, which is null for rows of the base.
 * Superseded purchases are among them: a few rows take less time without the anti join of
 * `currentPurchases`. `top` may sort and limit the rows of the base. Naming the columns here saves
 * a sixth of the time of a page, compared with `*`.
 */
export function signedPurchases(
  { base, delta }: StoreCatalogs,
  columns: string,
  condition: Sql,
  top: Sql = empty,
): Sql {
  return sql`
    (select ${raw(columns)}, null::tinyint as sign from ${raw(base)}.purchase where ${condition} ${top})
    union all
    (select ${raw(columns)}, sign from ${raw(delta)}.change where sign <> 0 and (${condition}))`;
}

/** Selects the keys and values of a file's entries of a dictionary. */
export const selectEntries = ({ table, dictionary }: Entries, { value }: Dictionary): string =>
  `select key, ${value} from ${table}${dictionary === null ? '' : ` where dictionary = ${dictionary}`}`;

/** All entries of a dictionary: of the base, and of the delta. */
export function dictionaryEntries({ base, delta }: StoreCatalogs, dictionary: Dictionary): Sql {
  const parts = [entriesOfBase(base, dictionary), entriesOfDelta(delta, dictionary)];
  return raw(`(${parts.map((part) => selectEntries(part, dictionary)).join(' union all ')})`);
}

/** The value of a row of a delta with its sign. The opposite of -2^63 exceeds 64 bits. */
export const signedCents = raw('sign * purchase_value_in_cents::hugeint');

/** Columns to group by, by name. */
export type GroupKeys = Readonly<Record<string, Sql>>;

/** The names of keys, and their definitions, in lists to which other columns are added. */
export function columnsOf(keys: GroupKeys): { readonly names: Sql; readonly definitions: Sql } {
  const each = Object.entries(keys);
  if (each.length === 0) return { names: empty, definitions: empty };
  return {
    names: raw(each.map(([name]) => `${name}, `).join('')),
    definitions: join(
      each.map(([name, key]) => sql`${key} as ${raw(name)}, `),
      '',
    ),
  };
}

/**
 * Groups the matching purchases by `keys`: these columns, purchase_count and revenue. Signed sums
 * over the delta subtract superseded rows. An anti join of all rows with the superseded ids takes three
 * times as long. The row of sign 0 adds nothing to any sum. Without a key
 * there is one row, also without a match. Each condition of `inBase` adds a column: the number of
 * matching rows of the base that meet it. Groups without purchases are then among the rows. `joined`
 * is a join of both tables.
 */
export function groupedPurchases(
  { base, delta }: StoreCatalogs,
  condition: Sql,
  keys: GroupKeys,
  inBase: Readonly<Record<string, Sql>> = {},
  joined: Sql = empty,
): Sql {
  const { names, definitions } = columnsOf(keys);
  const hasKeys = Object.keys(keys).length > 0;
  const counted = Object.keys(inBase);
  const groupBy = raw(hasKeys ? 'group by all' : '');
  // As integers: count(*) with a filter takes a tenth longer.
  const counts = Object.entries(inBase).map(
    ([name, counts]) => sql`, sum((${counts})::integer) as ${raw(name)}`,
  );
  return sql`(
    select ${names} coalesce(sum(purchases), 0)::bigint as purchase_count,
      coalesce(sum(cents), 0) as revenue
      ${raw(counted.map((name) => `, coalesce(sum(${name}), 0)::bigint as ${name}`).join(''))}
    from (
      select ${definitions} count(*) as purchases, sum(purchase_value_in_cents) as cents
        ${counts.length === 0 ? empty : join(counts, '')}
      from ${raw(base)}.purchase ${joined} where ${condition} ${groupBy}
      union all
      select ${definitions} sum(sign), sum(${signedCents}) ${raw(', 0'.repeat(counted.length))}
      from ${raw(delta)}.change ${joined} where (${condition}) or sign = 0 ${groupBy}
    )
    ${groupBy}
    ${raw(hasKeys && counted.length === 0 ? 'having sum(purchases) > 0' : '')}
  )`;
}
