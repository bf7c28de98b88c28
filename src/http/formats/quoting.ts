import { changedTextPattern, roundedNumberPattern } from '../../domain/spreadsheet-text.ts';

/** The characters that RFC 4180 requires quotes for, by the separator of columns. */
export const quotedCharacters = {
  ',': ['"', ',', '\r', '\n'],
  ';': ['"', ';', '\r', '\n'],
} as const;
export type Separator = keyof typeof quotedCharacters;

const needsQuotes = {
  ',': new RegExp(`[${quotedCharacters[','].join('')}]`),
  ';': new RegExp(`[${quotedCharacters[';'].join('')}]`),
} as const;
const isChanged = new RegExp(changedTextPattern, 'iu');
const isRounded = new RegExp(roundedNumberPattern);

/** An empty text is `""`, because an empty field is a missing value. */
const quote = (text: string, separator: Separator): string =>
  text === '' || needsQuotes[separator].test(text) ? `"${text.replaceAll('"', '""')}"` : text;

const asText = (text: string): string => (isChanged.test(text) ? `'${text}` : text);

/** How line formats quote a text. */
export const quotings = {
  none: (text: string): string => text,

  json: (text: string): string => JSON.stringify(text),

  /** RFC 4180. */
  csv: (text: string): string => quote(text, ','),

  /** `csv` with an apostrophe before text that a spreadsheet would change. */
  spreadsheet: (text: string): string => quote(asText(text), ','),

  spreadsheet_semicolon: (text: string): string => quote(asText(text), ';'),

  /** A number, with an apostrophe if a spreadsheet would round it. */
  spreadsheet_number: (text: string): string => (isRounded.test(text) ? `'${text}` : text),
} as const satisfies Record<string, (text: string) => string>;

export type Quoting = keyof typeof quotings;
