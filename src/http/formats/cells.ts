import { formatInstant } from '../../domain/instant.ts';
import { type ColumnData, valueAt } from './column-data.ts';
import type { LineCell } from './lines.ts';
import { quotings } from './quoting.ts';

export type Cell = (row: number) => string;

/** Writes what each row shows of a column, batch after batch. */
export function cellWriter({
  kind,
  before,
  quoting,
  after,
  absent,
}: LineCell): (data: ColumnData) => Cell {
  const quote = quotings[quoting];
  return (data) => (row) => {
    const value = valueAt(data, row);
    if (value === null) return absent;
    const text = kind === 'instant' ? formatInstant(value as bigint) : String(value);
    return before + quote(text) + after;
  };
}
