import type pg from 'pg';
import QueryStream from 'pg-query-stream';
import type { Sql } from 'sql-template-tag';
import { exactTypes } from '../../src/postgres/connection/pool.ts';

/** A purchase's row in the order of `purchaseColumns`. */
type SourceRow = (bigint | string | null)[];

export async function* stream(
  connection: pg.ClientBase,
  statement: Sql,
): AsyncGenerator<SourceRow> {
  yield* connection.query(new RowStream(connection, statement));
}

/**
 * A stream of rows in batches, with bounded memory. QueryStream does not fail if the connection
 * is lost after the last row, or while the cursor is closed: it waits for the server forever.
 */
class RowStream extends QueryStream {
  readonly #connection: pg.ClientBase;
  #isLost = false;

  constructor(connection: pg.ClientBase, { text, values }: Sql) {
    super(text, values, {
      // A row has at most 76 KiB of text: 19 MiB in the cursor, and 19 MiB in the stream.
      batchSize: 256,
      rowMode: 'array',
      types: exactTypes,
    });
    this.#connection = connection;
    connection.once('end', this.#handleEnd);
  }

  readonly #handleEnd = () => {
    this.#isLost = true;
    this.destroy(new Error('Connection terminated while rows were read'));
  };

  override _destroy(error: Error, callback: (error: Error) => void): void {
    const connection = this.#connection;
    connection.off('end', this.#handleEnd);
    if (this.#isLost) {
      callback(error);
      return;
    }
    const finish = () => {
      connection.off('end', finish);
      callback(error);
    };
    connection.once('end', finish);
    super._destroy(error, finish);
  }
}
