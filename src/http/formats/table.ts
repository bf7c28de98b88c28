import { writeExactly } from '../../domain/exact-numbers.ts';
import { parseInstant } from '../../domain/instant.ts';

/** The kinds of columns that formats distinguish. */
export type TableColumnKind =
  /** Mostly unique text, and repeating text. */
  | 'text'
  | 'label'
  /** Bigint. */
  | 'integer'
  /** Bigint microseconds since 1970-01-01T00:00:00Z. */
  | 'instant'
  /** The text `true` or `false`. */
  | 'boolean'
  /** The JSON text of an array or object. */
  | 'json';

export type TableColumn = {
  readonly name: string;
  readonly kind: TableColumnKind;
  /**
   * Instants are whole seconds, of which CSV shows no fraction: some readers, such as `d3.autoType`, leave more
   * than three digits as text.
   */
  readonly isWholeSeconds?: true;
  /** How JSON shows a missing value; `never` if every row has a value. */
  readonly absent: 'never' | 'left out' | 'null';
};

/** The columns of a response as rows. */
export type Table = {
  /** In the order of the JSON fields. Every row has a value in the first column. */
  readonly columns: readonly TableColumn[];
  /** The name of the column with the currency of a row's amounts; `currency` if undefined. */
  readonly currencyColumn?: string | undefined;
  /** Constant fields before and after the columns, only in formats whose rows are objects. */
  readonly before?: Readonly<Record<string, unknown>>;
  readonly after?: Readonly<Record<string, unknown>>;
};

/** The values of a column in some rows; null is a missing value. */
export type ColumnData = readonly (bigint | string | null)[];

/** The data of each column for some rows, in the table's order. */
export type TableBatch = { readonly rowCount: number; readonly data: readonly ColumnData[] };

/** A row of a JSON response: instants are text, arrays and objects are not serialized. */
type WireRow = Readonly<Record<string, unknown>>;

/** Reads a route's response as rows. */
export type ResponseTable<Response = never> = Table & {
  /**
   * `hasMore`: whether there are more rows than the response shows. `columns` and `currencyColumn` are
   * those of this response, if they depend on the request.
   */
  read(response: Response): {
    readonly rows: readonly WireRow[];
    readonly hasMore: boolean;
    readonly columns?: readonly TableColumn[];
    readonly currencyColumn?: string;
  };
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

/** Converts the values of responses. */
export const fromWire: Readonly<Record<TableColumnKind, (value: never) => bigint | string>> = {
  text: (text: string) => text,
  label: (text: string) => text,
  integer: (integer: bigint) => integer,
  boolean: String,
  instant: (text: string) => parseInstant(text, 'down') as bigint,
  json: (value: unknown) => writeExactly(JSON.stringify(value)),
};
