import sql, { raw, type Sql } from 'sql-template-tag';

/** What a search finds. */
export type Search = {
  /** Whether a row matches. */
  readonly matches: Sql;
  /** The same, with conditions of an index, which are true of every row that matches and of few others. */
  readonly indexed: Sql;
};

/**
 * Rows whose `search_text` contains the text, ignoring case and accents. A text of only white space, or of
 * U+001F, which separates fields, matches no row. The planner computes this second condition once.
 */
export function textSearch(text: string): Search {
  const matches = sql`(search_text like search_pattern(${text}) and search_form(${text}) ~ '[^\\s\\x1f]')`;
  return {
    matches,
    indexed: sql`(search_grams(search_text) @@ search_gram_query(${text}) and ${matches})`,
  };
}

/** Rows whose column has these digits in a row, whatever is between them. The index has reversed digits. */
export function digitSearch(column: 'phone', digits: string): Search {
  const reversed = [...digits].reverse().join('');
  const ofColumn = sql`reversed_digits(${raw(column)})`;
  const matches = sql`${ofColumn} like ${`%${reversed}%`}`;
  return {
    matches,
    indexed: sql`(search_grams(${ofColumn}) @@ search_gram_query(${reversed}) and ${matches})`,
  };
}

export const eitherOf = (one: Search, other: Search): Search => ({
  matches: sql`(${one.matches} or ${other.matches})`,
  indexed: sql`(${one.indexed} or ${other.indexed})`,
});
