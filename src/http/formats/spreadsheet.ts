/** The options of `csv_excel`, with the names and values of their parameters. */
export const spreadsheetOptions = {
  separator: ['comma', 'semicolon'],
  decimal: ['point', 'comma'],
  amounts: ['cents', 'units'],
} as const;

export type SpreadsheetOptions = {
  readonly [Name in keyof typeof spreadsheetOptions]?: (typeof spreadsheetOptions)[Name][number];
} & {
  /** Instants are local time of this zone; without it, UTC as in other formats. */
  readonly timezone?: string;
};
