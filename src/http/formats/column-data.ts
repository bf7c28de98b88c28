/**
 * The values of one column of many rows. Either one by one, or packed as what works
 * in columns has them, so that nothing is made of each value before it is
 * known what is wanted of it.
 */
export type ColumnData = PlainValues | PackedIntegers | PackedLabels | PackedTexts;

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

/** Text that hardly ever repeats, as UTF-8: one after another. */
export type PackedTexts = {
  readonly bytes: Uint8Array;
  /** Where each text begins, and the last one ends: one more than there are rows. */
  readonly offsets: Int32Array;
  readonly present: Bitmap | null;
};

/** Bit `row & 7` of byte `row >> 3` is set where the row has a value. Null: all have. */
export type Bitmap = Uint8Array;

export const isPresent = (bitmap: Bitmap | null, row: number): boolean =>
  bitmap === null || (((bitmap[row >> 3] as number) >> (row & 7)) & 1) === 1;

/** The bitmap of rows whose value is another than `absent`; null where that is so of all. */
export function bitmapOf<Value>(
  values: ArrayLike<Value> & { includes(value: Value): boolean },
  absent: Value,
): Bitmap | null {
  if (!values.includes(absent)) return null;
  const bitmap = new Uint8Array(Math.ceil(values.length / 8));
  for (let row = 0; row < values.length; row += 1) {
    const bit = values[row] === absent ? 0 : 1 << (row & 7);
    bitmap[row >> 3] = (bitmap[row >> 3] as number) | bit;
  }
  return bitmap;
}

export const isPackedIntegers = (data: ColumnData): data is PackedIntegers => 'integers' in data;
export const isPackedLabels = (data: ColumnData): data is PackedLabels =>
  // An array has keys as well, of another kind.
  !Array.isArray(data) && 'keys' in data;

export const isPackedTexts = (data: ColumnData): data is PackedTexts => 'offsets' in data;

/** One value, however it is kept. */
export function valueAt(data: ColumnData, row: number): bigint | string | null {
  if (isPackedIntegers(data)) {
    return isPresent(data.present, row) ? (data.integers[row] as bigint) : null;
  }
  if (isPackedLabels(data)) {
    return isPresent(data.present, row) ? (data.values[data.keys[row] as number] as string) : null;
  }
  if (isPackedTexts(data)) {
    if (!isPresent(data.present, row)) return null;
    const { buffer, byteOffset } = data.bytes;
    const [start, end] = [data.offsets[row] as number, data.offsets[row + 1] as number];
    return Buffer.from(buffer, byteOffset + start, end - start).toString();
  }
  return data[row] ?? null;
}
