import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { type Dictionary, type Entries, entriesOfBase, entriesOfDelta } from './layout.ts';
import { previousQuarterNames } from './previous-purchases.ts';

/** The catalogs of the two attached files that hold an organization's purchases. */
export type StoreCatalogs = { readonly base: string; readonly delta: string };

/**
 * The current purchases that match a condition, with the columns of a delta: purchases of the
 * base that the delta does not supersede, and the delta's own. Superseded rows equal the base's,
 * so the condition may also limit them: only a few ids are then joined. `ofSuperseded` is a condition
 * that they meet if those of the base meet the other one, which may need columns that they lack.
 */
export function currentPurchases(
  { base, delta }: StoreCatalogs,
  condition: Sql = sql`true`,
  ofSuperseded = condition,
): Sql {
  return sql`(
    select * exclude (${raw(previousQuarterNames)}) from ${raw(base)}.purchase
    anti join (
      select id from ${raw(delta)}.change as purchase where sign < 0 and (${ofSuperseded})
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
 * a sixth of the time of a page, compared with `*`. `ofSuperseded` as for `currentPurchases`.
 */
export function signedPurchases(
  { base, delta }: StoreCatalogs,
  columns: string,
  condition: Sql,
  top: Sql = empty,
  ofSuperseded = condition,
): Sql {
  const ofChanges =
    ofSuperseded === condition
      ? sql`sign <> 0 and (${condition})`
      : sql`(sign > 0 and (${condition}) or sign < 0 and (${ofSuperseded}))`;
  return sql`
    (select ${raw(columns)}, null::tinyint as sign from ${raw(base)}.purchase where ${condition} ${top})
    union all
    (select ${raw(columns)}, sign from ${raw(delta)}.change where ${ofChanges})`;
}

/** Selects the keys and values of a file's entries of a dictionary. */
export const selectEntries = ({ table, dictionary }: Entries, { value }: Dictionary): string =>
  `select key, ${value} from ${table}${dictionary === null ? '' : ` where dictionary = ${dictionary}`}`;

/** All entries of a dictionary: of the base, and of the delta. */
export function dictionaryEntries({ base, delta }: StoreCatalogs, dictionary: Dictionary): Sql {
  const parts = [entriesOfBase(base, dictionary), entriesOfDelta(delta, dictionary)];
  return raw(`(${parts.map((part) => selectEntries(part, dictionary)).join(' union all ')})`);
}
