import {
  AsyncByteQueue,
  type Data,
  type DataType,
  Dictionary,
  Field,
  Int32,
  Int64,
  makeData,
  RecordBatch,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  TimestampMicrosecond,
  Utf8,
  Vector,
} from 'apache-arrow';
import { ApiError } from '../response/errors.ts';
import {
  bitmapOf,
  type ColumnData,
  isPackedIntegers,
  isPackedLabels,
  isPackedTexts,
  type PackedIntegers,
  type PackedLabels,
  type PackedTexts,
  type PlainValues,
} from './column-data.ts';
import type { Format } from './format.ts';
import type { TableColumn, TableColumnKind } from './table.ts';

/**
 * An Arrow IPC stream: int64, timestamps in microseconds of UTC, labels as dictionaries,
 * no compression. A batch whose labels are others than those before replaces their
 * dictionary; none is ever added to, which some readers cannot do.
 */
export const arrow: Format = {
  mediaType: 'application/vnd.apache.arrow.stream',
  contentType: 'application/vnd.apache.arrow.stream',
  extension: 'arrows',
  writer: ({ columns }) => {
    const types = columns.map(({ kind }, index) => typeOf(kind, index));
    const schema = new Schema(
      columns.map(({ name, absent }, index) => new Field(name, type(index), absent !== 'never')),
    );
    function type(index: number): DataType {
      return types[index] as DataType;
    }
    const queue = new WrittenBytes();
    const writer = new RecordBatchStreamWriter({ autoDestroy: false });
    const dictionaries: Dictionaries = new WeakMap();
    return {
      begin: () => {
        writer.reset(queue, schema);
        return queue.take();
      },
      write: ({ rowCount, data }) => {
        const children = columns.map((column, index) =>
          childOf(column, type(index), data[index] ?? [], rowCount, dictionaries),
        );
        const struct = makeData({ type: new Struct(schema.fields), length: rowCount, children });
        writer.write(new RecordBatch(schema, struct));
        return queue.take();
      },
      end: () => {
        writer.finish();
        return queue.take();
      },
    };
  },
};

/** What the writer has written since it was last asked. */
class WrittenBytes extends AsyncByteQueue {
  #parts: Uint8Array[] = [];

  override write(value: Uint8Array): void {
    this.#parts.push(value);
  }

  take(): Uint8Array {
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [];
    return bytes;
  }
}

function typeOf(kind: TableColumnKind, index: number): DataType {
  switch (kind) {
    case 'integer':
      return new Int64();
    case 'instant':
      return new TimestampMicrosecond('UTC');
    case 'label':
      return new Dictionary(new Utf8(), new Int32(), index);
    default:
      return new Utf8();
  }
}

type Dictionaries = WeakMap<readonly string[], Vector<Utf8>>;

function childOf(
  { name, kind }: TableColumn,
  type: DataType,
  data: ColumnData,
  length: number,
  dictionaries: Dictionaries,
): Data {
  if (kind === 'integer' || kind === 'instant') {
    const { integers, present } = isPackedIntegers(data)
      ? data
      : packIntegers(name, data as PlainValues);
    return makeData({ type: type as Int64, length, data: integers, nullBitmap: present });
  }
  if (kind === 'label') {
    const { keys, present, values } = isPackedLabels(data)
      ? data
      : columnarLabels(data as PlainValues);
    const dictionary = dictionaryOf(values, dictionaries);
    const packed = { length, data: keys, nullBitmap: present, dictionary };
    return makeData({ type: type as Dictionary<Utf8, Int32>, ...packed });
  }
  return textOf(isPackedTexts(data) ? data : packTexts(data as readonly (string | null)[]));
}

function dictionaryOf(values: readonly string[], dictionaries: Dictionaries): Vector<Utf8> {
  const known = dictionaries.get(values);
  if (known !== undefined) return known;
  const dictionary = new Vector([textOf(packTexts(values))]);
  dictionaries.set(values, dictionary);
  return dictionary;
}

const textOf = ({ bytes, offsets, present }: PackedTexts): Data<Utf8> =>
  makeData({
    type: new Utf8(),
    length: offsets.length - 1,
    valueOffsets: offsets,
    data: bytes,
    nullBitmap: present,
  });

function packTexts(values: readonly (string | null)[]): PackedTexts {
  const offsets = new Int32Array(values.length + 1);
  let end = 0;
  values.forEach((value, index) => {
    end += value === null ? 0 : Buffer.byteLength(value);
    offsets[index + 1] = end;
  });
  return { bytes: Buffer.from(values.join('')), offsets, present: bitmapOf(values, null) };
}

function packIntegers(name: string, values: PlainValues): PackedIntegers {
  const integers = new BigInt64Array(values.length);
  values.forEach((value, index) => {
    const integer = (value ?? 0n) as bigint;
    // A sum of cents may: JSON and CSV write it to the last digit.
    if (BigInt.asIntN(64, integer) !== integer) {
      const message = `${name} is beyond 64 bits, which this format cannot hold; ask for JSON.`;
      throw new ApiError('validation_error', message, { param: 'format' });
    }
    integers[index] = integer;
  });
  return { integers, present: bitmapOf(values, null) };
}

function columnarLabels(labels: PlainValues): PackedLabels {
  const known = new Map<string, number>();
  const keys = Int32Array.from(labels, (label) => {
    if (label === null) return 0;
    const key = known.get(label as string) ?? known.size;
    known.set(label as string, key);
    return key;
  });
  return { keys, present: bitmapOf(labels, null), values: [...known.keys()] };
}
