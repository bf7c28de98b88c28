/** The row ids from `begin` on, without `end`. */
export type RowRange = { readonly begin: bigint; readonly end: bigint };

/** Half of a DuckDB row group, so that a statement reads one. */
const mostRows = 61_440;
const firstRows = 4_096;
/** Of the texts of a range: DuckDB needs several times as much to put them together. */
const enoughBytes = 8 * 2 ** 20;

/** Ranges of all rows, of as many as texts of their length allow. */
export type RowRanges = {
  next(): RowRange | null;
  /** What has been read was so many bytes of text: the next ranges are larger, or smaller. */
  noteRead(bytes: number): void;
  /** There was no memory for it: it comes again in halves. False where it is a single row. */
  halve(range: RowRange): boolean;
};

export function createRowRanges(end: bigint): RowRanges {
  let most = mostRows;
  let rows = firstRows;
  let begin = 0n;
  const again: RowRange[] = [];
  return {
    next() {
      const smaller = again.pop();
      if (smaller !== undefined || begin >= end) return smaller ?? null;
      // Of the largest each lies within one row group.
      const range = { begin, end: begin + BigInt(rows) - (begin % BigInt(rows)) };
      begin = range.end;
      return range;
    },
    noteRead(bytes) {
      rows = bytes > enoughBytes ? Math.max(1, rows >> 1) : Math.min(most, rows * 2);
    },
    halve(range) {
      const half = (range.end - range.begin) / 2n;
      if (half === 0n) return false;
      const middle = range.begin + half;
      again.push({ begin: middle, end: range.end }, { begin: range.begin, end: middle });
      most = Math.max(1, Math.min(most, Number(half)));
      rows = Math.min(rows, most);
      return true;
    },
  };
}
