import sql, { type Sql } from 'sql-template-tag';
import type { KeysetList } from './keyset-list.ts';

/**
 * Rows whose `search_text` contains the text, case and accents aside. The trigram
 * index knows three letters or digits in a row: for shorter searches, and for
 * punctuation, it would be read from end to end.
 */
export function searchConditions(text: string | undefined): {
  readonly conditions: readonly Sql[];
  readonly unindexedCondition?: NonNullable<KeysetList['unindexedCondition']>;
} {
  if (text === undefined) return { conditions: [] };
  const contains = sql`search_text like search_pattern(${text})`;
  const isIndexed = /[\p{L}\p{M}\p{N}]{3}/u.test(text);
  return isIndexed ? { conditions: [contains] } : { conditions: [], unindexedCondition: contains };
}
