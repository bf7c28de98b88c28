/** The characters that RFC 4180 requires quotes for. */
export const quotedCharacters = ['"', ',', '\r', '\n'] as const;
/**
 * Text that a spreadsheet evaluates as a formula, also with full-width signs or after a line feed. It means
 * the same in JavaScript and DuckDB (RE2), and has no single quotes.
 */
export const formulaPattern = String.raw`^[=+\-@\t\r\n＝＋－＠]`;

const needsQuotes = new RegExp(`[${quotedCharacters.join('')}]`);
const isFormula = new RegExp(formulaPattern);

/** How line formats quote a text. */
export const quotings = {
  none: (text: string): string => text,

  json: (text: string): string => JSON.stringify(text),

  /** RFC 4180. An empty text is `""`, because an empty field is a missing value. */
  csv: (text: string): string =>
    text === '' || needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text,

  /** `csv` with an apostrophe before formulas. */
  spreadsheet: (text: string): string => quotings.csv(isFormula.test(text) ? `'${text}` : text),
} as const satisfies Record<string, (text: string) => string>;

export type Quoting = keyof typeof quotings;
