/** What RFC 4180 wants quotes around texts with. */
export const quotedCharacters = ['"', ',', '\r', '\n'] as const;
/**
 * What a spreadsheet would take for a formula; the signs of full width, too. A regular
 * expression that JavaScript and DuckDB (RE2) read alike, without single quotes.
 */
export const formulaPattern = String.raw`^[=+\-@\t\r＝＋－＠]`;

const needsQuotes = new RegExp(`[${quotedCharacters.join('')}]`);
const isFormula = new RegExp(formulaPattern);

/** How formats of lines write a text among others. */
export const quotings = {
  none: (text: string): string => text,

  json: (text: string): string => JSON.stringify(text),

  /** RFC 4180, where it is needed; a text without characters is `""`, no value is nothing. */
  csv: (text: string): string =>
    text === '' || needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text,

  /** As `csv`; what would be a formula has an apostrophe before it. */
  spreadsheet: (text: string): string => quotings.csv(isFormula.test(text) ? `'${text}` : text),
} as const satisfies Record<string, (text: string) => string>;

export type Quoting = keyof typeof quotings;
