import sql, { type Sql } from 'sql-template-tag';

/**
 * Whether a row's `search_text` contains the text, case and accents aside. A text of which folding
 * leaves only white space, or U+001F, which separates fields, matches no row: nearly every row
 * contains it. The planner computes that condition once.
 */
export function containsText(text: string): Sql {
  return sql`(search_text like search_pattern(${text}) and search_form(${text}) ~ '[^\\s\\x1f]')`;
}

/** True of every row that contains the text and of few others, told from an index alone. */
export function hasGramsOf(text: string): Sql {
  return sql`search_grams(search_text) @@ search_gram_query(${text})`;
}
