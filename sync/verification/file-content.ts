import type { DuckDBConnection } from '@duckdb/node-api';
import type { Sql } from 'sql-template-tag';
import { type DuckDBRow, queryRows } from '../../src/duckdb/connection.ts';
import type { StoreCatalogs } from '../../src/purchase-store/format/relations.ts';
import { checksumInFile, rowHashesInFile } from './checksums.ts';
import { whyInconsistent } from './consistency.ts';
import {
  DamagedGenerationError,
  type PublishedContent,
  type PublishedGeneration,
  type RowHash,
} from './published-content.ts';

/** The content of a base and a delta. */
export function fileContent(options: {
  readonly generation: PublishedGeneration;
  readonly connection: DuckDBConnection;
  readonly catalogs: StoreCatalogs;
  /** Rejects with DamagedGenerationError if the files are damaged. */
  readonly reading?: <Result>(work: () => Promise<Result>) => Promise<Result>;
}): PublishedContent {
  const { generation, connection, catalogs, reading = (work) => work() } = options;
  const query = (statement: Sql): Promise<DuckDBRow[]> =>
    reading(() => queryRows(connection, statement));
  return {
    generation,
    async requireConsistent() {
      const reason = await reading(() => whyInconsistent(connection, catalogs));
      if (reason !== null) throw new DamagedGenerationError(reason);
    },
    async exclude(changed) {
      await connection.run('create or replace temp table changed (id bigint not null)');
      const appender = await connection.createAppender('changed', 'main', 'temp');
      try {
        for await (const id of changed) {
          appender.appendBigInt(id);
          appender.endRow();
        }
      } finally {
        appender.closeSync();
      }
    },
    async checksum(range) {
      const [row] = await query(checksumInFile(catalogs, range));
      return { count: Number(row?.[0]), sum: row?.[1] as bigint };
    },
    rowHashes: async (range) =>
      (await query(rowHashesInFile(catalogs, range))) as unknown as RowHash[],
  };
}
