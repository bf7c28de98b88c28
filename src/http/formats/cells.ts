import {
  type ColumnData,
  isPackedIntegers,
  isPackedLabels,
  isPresent,
  type PackedIntegers,
} from '../../domain/column-data.ts';
import { formatInstant, formatMicroseconds } from '../../domain/instant.ts';
import type { LineCell } from './lines.ts';
import { quotings } from './quoting.ts';

export type Cell = (row: number) => string;

/**
 * Writes what each row shows of a column, batch after batch. Millions of cells go this
 * way: numbers and instants are written without a bigint wherever a double is as exact,
 * each label once.
 */
export function cellWriter({
  kind,
  before,
  quoting,
  after,
  absent,
}: LineCell): (data: ColumnData) => Cell {
  const quote = quotings[quoting];
  const write = (text: string): string => before + quote(text) + after;
  // A dictionary is the same array from batch to batch.
  const written = new WeakMap<readonly string[], readonly string[]>();
  const writtenLabels = (values: readonly string[]): readonly string[] => {
    const known = written.get(values) ?? values.map(write);
    written.set(values, known);
    return known;
  };
  return (data) => {
    if (isPackedLabels(data)) {
      const { keys, present } = data;
      const labels = writtenLabels(data.values);
      return (row) => (isPresent(present, row) ? (labels[keys[row] as number] as string) : absent);
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
  };
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

function instantsOf(data: PackedIntegers): Cell {
  const doubles = doublesOf(data);
  return (row) => {
    const instant = doubles(row);
    return instant === null
      ? formatInstant(data.integers[row] as bigint)
      : formatMicroseconds(instant);
  };
}
