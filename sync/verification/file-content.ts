import type { DuckDBConnection } from '@duckdb/node-api';
import type { Sql } from 'sql-template-tag';
import type { DuckDBRow } from '../../src/duckdb/connection.ts';
import type { StoreCatalogs } from '../../src/purchase-store/relations.ts';
import { checksumInFile, rowHashesInFile } from './checksums.ts';
import { findDictionaryDamage } from './dictionaries.ts';
import type { Generation, PublishedContent, RowHash } from './published-content.ts';

/** The content of a base and a delta. */
export function fileContent(options: {
  readonly generation: Generation;
  readonly connection: DuckDBConnection;
  readonly catalogs: StoreCatalogs;
  /** Rejects with UnreadableError if the files are damaged. */
  readonly query: (statement: Sql) => Promise<DuckDBRow[]>;
}): PublishedContent {
  const { generation, connection, catalogs, query } = options;
  return {
    generation,
    findDamage: () => findDictionaryDamage(query, catalogs),
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
