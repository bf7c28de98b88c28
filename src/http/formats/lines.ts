import sql, { raw, type Sql } from 'sql-template-tag';
import { minorDigits } from '../../domain/currency.ts';
import { decimalOf } from '../../domain/decimal.ts';
import { formatInstant } from '../../domain/instant.ts';
import { localTimeWriter } from '../../domain/local-time.ts';
import type { Format } from './format.ts';
import { type Quoting, quotings } from './quoting.ts';
import type { Table, TableBatch, TableColumnKind } from './table.ts';

/** The parts of a row's line of text. */
type Line = {
  readonly before: string;
  readonly cells: readonly LineCell[];
  readonly after: string;
};

/** A cell is `before`, the quoted text and `after`. A cell without a value is `absent`. */
export type LineCell = {
  readonly kind: TableColumnKind;
  readonly before: string;
  readonly quoting: Quoting;
  readonly after: string;
  readonly absent: string;
  readonly units?: AmountInUnits;
  /** Instants as local time of this zone. */
  readonly timeZone?: string;
  /** Instants without a fraction. */
  readonly isWholeSeconds?: true | undefined;
};

/** An amount as a decimal number, with the digits of its currency. */
type AmountInUnits = {
  readonly mark: '.' | ',';
  /** The index of the column with the row's currency; -1 if the table has none. */
  readonly currencyIndex: number;
};

export type LinesFormat = Format & {
  /** The text before the first line. */
  begin(table: Table): string;
  line(table: Table): Line;
};

export function linesFormat(format: Omit<LinesFormat, 'writer'>): LinesFormat {
  return {
    ...format,
    writer: (table) => {
      const { before, cells, after } = format.line(table);
      const writers = cells.map(cellWriter);
      return {
        begin: () => Buffer.from(format.begin(table)),
        write: ({ rowCount, data }) => {
          const cellTexts: CellText[] = writers.map((write) => write(data));
          let text = '';
          for (let row = 0; row < rowCount; row += 1) {
            text += before;
            for (const cellText of cellTexts) text += cellText(row);
            text += after;
          }
          return Buffer.from(text);
        },
        end: () => new Uint8Array(0),
      };
    },
  };
}

type CellText = (row: number) => string;

function cellWriter(cell: LineCell, index: number): (data: TableBatch['data']) => CellText {
  const { before, quoting, after, absent, units } = cell;
  const quote = quotings[quoting].text;
  const textOf = valueWriter(cell);
  return (data) => {
    const values = data[index] ?? [];
    const currencies = data[units?.currencyIndex ?? -1] ?? [];
    return (row) => {
      const value = values[row] ?? null;
      if (value === null) return absent;
      return before + quote(textOf(value, currencies[row] ?? null)) + after;
    };
  };
}

type ValueText = (value: bigint | string, currency: bigint | string | null) => string;

/** The text of a value. `valueSql` writes the same, but of exports, whose instants have fractions. */
function valueWriter({ kind, units, timeZone, isWholeSeconds }: LineCell): ValueText {
  if (units !== undefined) {
    return (amount, currency) =>
      decimalOf(amount, minorDigits(currency as string | null)).replace('.', units.mark);
  }
  if (kind !== 'instant') return (value) => String(value);
  const formatUtc = isWholeSeconds ? formatSeconds : formatInstant;
  const write = timeZone === undefined ? formatUtc : localTimeWriter(timeZone);
  return (instant) => write(instant as bigint);
}

const formatSeconds = (instant: bigint): string => formatInstant(instant).replace(/\.0+Z$/, 'Z');

/**
 * A cell in SQL of DuckDB, as a part of `concat`, which leaves out what is null. `digits` are those of the row's
 * currency, and the function `localTime` writes microseconds as local time.
 */
export function cellSql(
  cell: LineCell,
  value: Sql,
  { isRequired, isId, ...functions }: SqlValue,
): Sql {
  const { before, quoting, after, absent } = cell;
  // Letters and digits need no quotes.
  const quote = quotings[isId && quoting !== 'json' ? 'none' : quoting].sql;
  const around = (present: string, otherwise: string): Sql =>
    isRequired || present === otherwise
      ? sql`${present}`
      : sql`case when ${value} is null then ${otherwise} else ${present} end`;
  const text = quote(valueSql(cell, value, functions));
  return sql`concat(${around(before, absent)}, ${text}, ${around(after, '')})`;
}

type SqlValue = {
  readonly isRequired: boolean;
  readonly isId: boolean;
  readonly digits: Sql;
  readonly localTime: string;
};

function valueSql(
  { kind, units, timeZone }: LineCell,
  value: Sql,
  { digits, localTime }: Pick<SqlValue, 'digits' | 'localTime'>,
): Sql {
  if (units !== undefined) {
    // Exact: a product of decimals is a decimal, but their quotient is a double.
    const text = sql`case ${digits}
      when 0 then ${value}::varchar
      when 3 then (${value}::decimal(19, 0) * 0.001::decimal(4, 3))::varchar
      when 4 then (${value}::decimal(19, 0) * 0.0001::decimal(5, 4))::varchar
      else (${value}::decimal(19, 0) * 0.01::decimal(3, 2))::varchar end`;
    return sql`replace(${text}, '.', ${units.mark})`;
  }
  if (kind !== 'instant') return value;
  if (timeZone !== undefined) return sql`${raw(localTime)}(epoch_us(${value}))`;
  return sql`strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')`;
}
