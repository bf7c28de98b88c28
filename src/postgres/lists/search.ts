import sql, { type Sql } from 'sql-template-tag';

/**
 * Whether a row's `search_text` contains the text, ignoring case and accents. A text of only white
 * space, or of U+001F, which separates fields, matches no row. The planner computes this second
 * condition once.
 */
export function containsText(text: string): Sql {
  return sql`(search_text like search_pattern(${text}) and search_form(${text}) ~ '[^\\s\\x1f]')`;
}

/** An index condition: true of every row that contains the text, and of few others. */
export function hasGramsOf(text: string): Sql {
  return sql`search_grams(search_text) @@ search_gram_query(${text})`;
}
