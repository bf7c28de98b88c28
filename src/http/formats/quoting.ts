/** How formats of lines write a text among others. */
export const quotings = {
  none: (text: string): string => text,

  json: (text: string): string => JSON.stringify(text),

  /** RFC 4180, where it is needed; a text without characters is `""`, no value is nothing. */
  csv: (text: string): string =>
    text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text,

  /** As `csv`; what a spreadsheet would take for a formula has an apostrophe before it. */
  spreadsheet: (text: string): string =>
    quotings.csv(/^[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text),
} as const satisfies Record<string, (text: string) => string>;

export type Quoting = keyof typeof quotings;
