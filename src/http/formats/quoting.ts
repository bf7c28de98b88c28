import sql, { join, raw, type Sql } from 'sql-template-tag';
import { changedTextPattern, roundedNumberPattern } from '../../domain/spreadsheet-text.ts';

/** How a text is written: in JavaScript, and in SQL of DuckDB. */
type Quoted = { text(text: string): string; sql(text: Sql): Sql };

export type Separator = ',' | ';';

/** RFC 4180. An empty text is `""`, because an empty field is a missing value. */
function quotedFor(separator: Separator): Quoted {
  const special = ['"', separator, '\r', '\n'];
  const needsQuotes = new RegExp(`[${special.join('')}]`);
  return {
    text: (text) =>
      text === '' || needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text,
    sql: (text) => {
      // A regular expression takes twice as long to find none of them.
      const contains = special.map((character) => sql`contains(${text}, ${character})`);
      return sql`case when ${text} = '' or ${join(contains, ' or ')}
        then '"' || replace(${text}, '"', '""') || '"' else ${text} end`;
    },
  };
}

const isChanged = new RegExp(changedTextPattern, 'iu');
const isRounded = new RegExp(roundedNumberPattern);

/** With an apostrophe before text that a spreadsheet would change. */
function quotedForSpreadsheet(separator: Separator): Quoted {
  const quoted = quotedFor(separator);
  return {
    text: (text) => quoted.text(isChanged.test(text) ? `'${text}` : text),
    sql: (text) => sql`case when regexp_matches(${text}, ${raw(`'${changedTextPattern}'`)}, 'i')
      then ${quoted.sql(sql`'''' || ${text}`)} else ${quoted.sql(text)} end`,
  };
}

/** How line formats quote a text. */
export const quotings = {
  none: { text: (text) => text, sql: (text) => text },
  json: { text: JSON.stringify, sql: (text) => sql`to_json(${text})::varchar` },
  csv: quotedFor(','),
  spreadsheet: quotedForSpreadsheet(','),
  spreadsheet_semicolon: quotedForSpreadsheet(';'),
  /** A number, with an apostrophe if a spreadsheet would round it. */
  spreadsheet_number: {
    text: (text) => (isRounded.test(text) ? `'${text}` : text),
    sql: (
      number,
    ) => sql`case when regexp_matches(${number}::varchar, ${raw(`'${roundedNumberPattern}'`)})
      then '''' || ${number}::varchar else ${number}::varchar end`,
  },
} as const satisfies Record<string, Quoted>;

export type Quoting = keyof typeof quotings;
