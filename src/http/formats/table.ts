import { parseInstant } from '../../domain/instant.ts';
import { writeExactly } from '../response/exact-numbers.ts';

/** What formats tell apart. */
export type TableColumnKind =
  /** Text that hardly ever repeats, and text that does. */
  | 'text'
  | 'label'
  /** Whole numbers: bigint. */
  | 'integer'
  /** Points in time: bigint microseconds since 1970-01-01T00:00:00Z. */
  | 'instant'
  /** What is no single value: its JSON text. */
  | 'json';

export type TableColumn = {
  readonly name: string;
  readonly kind: TableColumnKind;
  /** What JSON shows of a row without a value; `never` where every row has one. */
  readonly absent: 'never' | 'left out' | 'null';
};

/** What an answer looks like as rows. */
export type Table = {
  /** In the order of the JSON fields. The first one is in every row's JSON. */
  readonly columns: readonly TableColumn[];
  /** Fields that are the same in every row: shown by formats whose rows are objects only. */
  readonly before?: Readonly<Record<string, unknown>>;
  readonly after?: Readonly<Record<string, unknown>>;
};

/** The values of a column of several rows; null where a row has none. */
export type ColumnData = readonly (bigint | string | null)[];

/** Some rows of a table: the data of each column, in the table's order. */
export type TableBatch = { readonly rowCount: number; readonly data: readonly ColumnData[] };

/** A row as JSON answers show it: instants as text, whatever is no single value as it is. */
export type WireRow = Readonly<Record<string, unknown>>;

/** How a route's answer reads as rows. */
export type AnswerTable<Answer = never> = Table & {
  /** `hasMore`: whether there are more rows than the answer shows. */
  read(answer: Answer): { readonly rows: readonly WireRow[]; readonly hasMore: boolean };
};

export function batchOf({ columns }: Table, rows: readonly WireRow[]): TableBatch {
  const data = columns.map(({ name, kind }) =>
    rows.map((row) => {
      const value = row[name];
      return value === undefined || value === null ? null : fromWire[kind](value as never);
    }),
  );
  return { rowCount: rows.length, data };
}

const fromWire: Readonly<Record<TableColumnKind, (value: never) => bigint | string>> = {
  text: (text: string) => text,
  label: (text: string) => text,
  integer: (integer: bigint) => integer,
  instant: (text: string) => parseInstant(text, 'down') as bigint,
  json: (value: unknown) => writeExactly(JSON.stringify(value)),
};
