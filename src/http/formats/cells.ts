import {
  type ColumnData,
  isPackedIntegers,
  isPackedLabels,
  isPresent,
  type PackedIntegers,
} from '../../domain/column-data.ts';
import { formatInstant } from '../../domain/instant.ts';
import type { TableColumnKind } from './table.ts';

/** How a text format writes the values of a column. */
export type CellStyle = {
  /** Text that has been made of a value. */
  readonly write: Readonly<Record<TableColumnKind, (text: string) => string>>;
  /** In place of no value. */
  readonly absent: string;
};

type Cell = (row: number) => string;

/**
 * What each row shows of a column. Millions of cells go this way: numbers and instants
 * are written without a bigint wherever a double is as exact, each label once.
 */
export function cellsOf(kind: TableColumnKind, style: CellStyle, data: ColumnData): Cell {
  const { absent } = style;
  const write = style.write[kind];
  if (isPackedLabels(data)) {
    const { keys, present } = data;
    const written = writtenLabels(data.values, write);
    return (row) => (isPresent(present, row) ? (written[keys[row] as number] as string) : absent);
  }
  if (isPackedIntegers(data)) {
    const { present } = data;
    const digits = kind === 'instant' ? instantsOf(data) : digitsOf(data);
    return (row) => (isPresent(present, row) ? write(digits(row)) : absent);
  }
  return (row) => {
    const value = data[row] ?? null;
    if (value === null) return absent;
    return write(kind === 'instant' ? formatInstant(value as bigint) : String(value));
  };
}

// A dictionary is the same array from batch to batch.
const labelsByStyle = new WeakMap<object, WeakMap<readonly string[], string[]>>();

function writtenLabels(
  values: readonly string[],
  write: (text: string) => string,
): readonly string[] {
  const known = labelsByStyle.get(write) ?? new WeakMap<readonly string[], string[]>();
  labelsByStyle.set(write, known);
  const written = known.get(values) ?? values.map(write);
  known.set(values, written);
  return written;
}

const highStep = 2 ** 32;
/** Below it, the upper half of a bigint, a double holds all of it. */
const highLimit = 2 ** 20;

/** The number as a double, or null where that would not be exact. */
function doublesOf({ integers }: PackedIntegers): (row: number) => number | null {
  const halves = new Int32Array(integers.buffer, integers.byteOffset, integers.length * 2);
  const unsigned = new Uint32Array(integers.buffer, integers.byteOffset, integers.length * 2);
  return (row) => {
    const high = halves[2 * row + 1] as number;
    return high < highLimit && high >= -highLimit
      ? high * highStep + (unsigned[2 * row] as number)
      : null;
  };
}

function digitsOf(data: PackedIntegers): Cell {
  const doubles = doublesOf(data);
  return (row) => String(doubles(row) ?? data.integers[row]);
}

const dayMicroseconds = 86_400_000_000;
const twoDigits = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));

/** As `formatInstant`, and several times as fast: days repeat. */
function instantsOf(data: PackedIntegers): Cell {
  const doubles = doublesOf(data);
  let lastDay = Number.NaN;
  let date = '';
  return (row) => {
    const instant = doubles(row);
    if (instant === null) return formatInstant(data.integers[row] as bigint);
    const day = Math.floor(instant / dayMicroseconds);
    if (day !== lastDay) {
      lastDay = day;
      date = new Date(day * 86_400_000).toISOString().slice(0, 11);
    }
    const ofDay = instant - day * dayMicroseconds;
    const second = Math.floor(ofDay / 1_000_000);
    const minute = Math.floor(second / 60);
    const fraction = 1_000_000 + (ofDay - second * 1_000_000);
    return `${date}${twoDigits[Math.floor(minute / 60)]}:${twoDigits[minute % 60]}:${twoDigits[second % 60]}.${String(fraction).slice(1)}Z`;
  };
}
