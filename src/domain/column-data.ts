/**
 * The values of one column of many rows. Either one by one, or packed as an engine
 * that works in columns has them, so that nothing is made of each value before it is
 * known what is wanted of it.
 */
export type ColumnData = PlainValues | PackedIntegers | PackedLabels;

export type PlainValues = readonly (bigint | string | null)[];

/** Whole numbers: cents, ids, microseconds. */
export type PackedIntegers = {
  readonly integers: BigInt64Array;
  readonly present: Bitmap | null;
};

/** Text that repeats: a number for each row, and the text that it stands for. */
export type PackedLabels = {
  readonly keys: Int32Array;
  readonly present: Bitmap | null;
  /** The same array from batch to batch where nothing has to be added. */
  readonly values: readonly string[];
};

/** Bit `row & 7` of byte `row >> 3` is set where the row has a value. Null: all have. */
export type Bitmap = Uint8Array;

export const isPresent = (bitmap: Bitmap | null, row: number): boolean =>
  bitmap === null || (((bitmap[row >> 3] as number) >> (row & 7)) & 1) === 1;

/** The bitmap of rows of which `hasValue` tells; null where it says so of all. */
export function bitmapOf(rowCount: number, hasValue: (row: number) => boolean): Bitmap | null {
  const bitmap = new Uint8Array(Math.ceil(rowCount / 8));
  let areAllPresent = true;
  for (let row = 0; row < rowCount; row += 1) {
    if (hasValue(row)) bitmap[row >> 3] = (bitmap[row >> 3] as number) | (1 << (row & 7));
    else areAllPresent = false;
  }
  return areAllPresent ? null : bitmap;
}

export const isPackedIntegers = (data: ColumnData): data is PackedIntegers => 'integers' in data;
export const isPackedLabels = (data: ColumnData): data is PackedLabels =>
  // An array has keys as well, of another kind.
  !Array.isArray(data) && 'keys' in data;

/** One value, however it is kept. */
export function valueAt(data: ColumnData, row: number): bigint | string | null {
  if (isPackedIntegers(data)) {
    return isPresent(data.present, row) ? (data.integers[row] as bigint) : null;
  }
  if (isPackedLabels(data)) {
    return isPresent(data.present, row) ? (data.values[data.keys[row] as number] as string) : null;
  }
  return data[row] ?? null;
}
