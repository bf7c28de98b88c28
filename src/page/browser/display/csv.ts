import { minorDigits } from '../../../domain/currency.ts';
import { decimalOf } from '../../../domain/decimal.ts';
import { changedTextPattern, roundedNumberPattern } from '../../../domain/spreadsheet-text.ts';
import type { Amounts, Report, ReportRow } from '../api/responses.ts';
import { decimalMark, texts } from '../language/language.ts';
import { localText } from '../view/calendar.ts';
import { isMoney, measureNames, type ViewState } from '../view/view-state.ts';
import { dimensionLabel, groupLabel } from './dimensions.ts';
import { isMissing, measureLabel } from './measures.ts';

/** A text, or a number, date or time that a spreadsheet reads. */
export type Cell = string | { readonly plain: string };

/** What a panel shows, for a spreadsheet. */
export type CsvTable = {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
};

const separator = decimalMark === ',' ? ';' : ',';
const needsQuotes = new RegExp(`["\\r\\n${separator}]`);
const isChanged = new RegExp(changedTextPattern, 'iu');
const isRounded = new RegExp(roundedNumberPattern);

/** An apostrophe precedes what a spreadsheet would evaluate, change or round. */
function fieldOf(cell: Cell): string {
  const isText = typeof cell === 'string';
  const text = isText ? cell : cell.plain.replace('.', decimalMark);
  const kept = (isText ? isChanged : isRounded).test(text) ? `'${text}` : text;
  return needsQuotes.test(kept) ? `"${kept.replaceAll('"', '""')}"` : kept;
}

/** With the marks that spreadsheets expect in the reader's country. Excel detects UTF-8 by the byte order mark. */
export const csvOf = ({ columns, rows }: CsvTable): string =>
  `\ufeff${[columns, ...rows].map((row) => `${row.map(fieldOf).join(separator)}\r\n`).join('')}`;

export const amountCell = (amount: Amounts[keyof Amounts], currency: string | null): Cell => ({
  plain: decimalOf(amount, minorDigits(currency)),
});

export const currencyOf = ({ group_by, currency }: Grouped, row: ReportRow): string | null =>
  group_by.includes('currency') ? (row.currency as string | null) : currency;

type Grouped = Pick<Report, 'group_by' | 'rows' | 'currency' | 'timezone'>;

const isPeriod = (name: string): boolean => name in texts.intervals;

/** The rows of a report with all their measures, also those of the compared time. */
export function reportTable(
  report: Grouped,
  state: ViewState,
  labelOf = (name: string, row: ReportRow) => groupLabel(name, row[name], report.timezone),
): CsvTable {
  const { group_by, rows, timezone } = report;
  const [first] = rows;
  const measures = measureNames.filter((name) => first?.[name] !== undefined);
  const names = measures.map((name) => measureLabel(name, state));
  const isCompared = first?.compared !== undefined;
  const cellsOf = (amounts: Amounts, currency: string | null) =>
    measures.map((name): Cell => {
      if (isMissing(name, amounts)) return '';
      return isMoney(name) ? amountCell(amounts[name], currency) : { plain: String(amounts[name]) };
    });
  return {
    columns: [
      ...group_by.map((name) => dimensionLabel(name) + (isPeriod(name) ? ` (${timezone})` : '')),
      ...names,
      ...(isCompared ? names.map(texts.downloads.compared) : []),
      ...(group_by.includes('currency') ? [] : [texts.dimensions.currency]),
    ],
    rows: rows.map((row) => {
      const currency = currencyOf(report, row);
      return [
        ...group_by.map((name): Cell => {
          if (!isPeriod(name)) return labelOf(name, row);
          return {
            plain: localText(String(row[name]), timezone).slice(0, name === 'hour' ? 16 : 10),
          };
        }),
        ...cellsOf(row, currency),
        ...(row.compared === undefined ? [] : cellsOf(row.compared, currency)),
        ...(group_by.includes('currency') ? [] : [currency ?? '']),
      ];
    }),
  };
}
