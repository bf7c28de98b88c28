import type { SchemaElement } from 'hyparquet';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { type ColumnData, valueAt } from '../../domain/column-data.ts';
import type { Format } from './format.ts';
import type { Table, TableBatch, TableColumn } from './table.ts';

/** Some rows more, for it is whole batches. Encoding more at once would keep others waiting. */
const rowsOfGroup = 6_000;

/**
 * A Parquet file: int64, timestamps in microseconds of UTC, text with dictionaries where
 * it repeats, Snappy. Row groups are sent as they are full; none is kept.
 */
export const parquet: Format = {
  mediaType: 'application/vnd.apache.parquet',
  contentType: 'application/vnd.apache.parquet',
  extension: 'parquet',
  writer: (table) => {
    const bytes = new ByteWriter();
    const writer = new ParquetWriter({
      writer: bytes,
      schema: schemaOf(table),
      createdBy: 'crm-data-service',
    });
    const written = (): Uint8Array => {
      const copy = Buffer.from(bytes.getBytes());
      // The offset in the file goes on.
      bytes.index = 0;
      return copy;
    };
    let waiting: TableBatch[] = [];
    let rowCount = 0;
    const writeGroup = (): Uint8Array => {
      const columnData = table.columns.map(({ name }, index) => ({
        name,
        data: valuesOf(waiting, index, rowCount),
      }));
      writer.write({ columnData, rowGroupSize: rowCount });
      waiting = [];
      rowCount = 0;
      return written();
    };
    return {
      begin: written,
      write: (batch) => {
        waiting.push(batch);
        rowCount += batch.rowCount;
        return rowCount < rowsOfGroup ? written() : writeGroup();
      },
      end: () => {
        const last = rowCount === 0 ? written() : writeGroup();
        writer.finish();
        return Buffer.concat([last, written()]);
      },
    };
  },
};

function schemaOf({ columns }: Table): SchemaElement[] {
  return [{ name: 'rows', num_children: columns.length }, ...columns.map(elementOf)];
}

function elementOf({ name, kind, absent }: TableColumn): SchemaElement {
  const repetition_type = absent === 'never' ? 'REQUIRED' : 'OPTIONAL';
  switch (kind) {
    case 'integer':
      return { name, repetition_type, type: 'INT64' };
    case 'instant': {
      const logical_type = { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' } as const;
      return { name, repetition_type, type: 'INT64', logical_type };
    }
    default: {
      const logical_type = { type: 'STRING' } as const;
      return { name, repetition_type, type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type };
    }
  }
}

type Value = bigint | string | null;

function valuesOf(batches: readonly TableBatch[], column: number, count: number): Value[] {
  const values = new Array<Value>(count);
  let end = 0;
  for (const { rowCount, data } of batches) {
    const ofBatch = data[column] as ColumnData;
    for (let row = 0; row < rowCount; row += 1) values[end + row] = valueAt(ofBatch, row);
    end += rowCount;
  }
  return values;
}
