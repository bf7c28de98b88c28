import { BIGINT, BOOLEAN, type DuckDBConnection, DuckDBDataChunk } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { DuckDBRow } from '../../src/duckdb/connection.ts';
import { currentPurchases, type StoreCatalogs } from '../../src/purchase-store/relations.ts';
import { checksumsInFile, rowHashesInFile } from './checksums.ts';
import { findDictionaryDamage } from './dictionaries.ts';
import type { ChangedId, Generation, PublishedContent } from './published-content.ts';
import { creationInFile, inFile } from './purchase-range.ts';

type Query = (statement: Sql) => Promise<DuckDBRow[]>;

/** The content of a base and a delta. */
export function fileContent(options: {
  readonly generation: Generation;
  readonly connection: DuckDBConnection;
  readonly catalogs: StoreCatalogs;
  /** Rejects with UnreadableError if the files are damaged. */
  readonly query: Query;
}): PublishedContent {
  const { generation, connection, catalogs, query } = options;
  const axes = { created: creationInFile, id: raw('id') };
  return {
    generation,
    findDamage: () => findDictionaryDamage(query, catalogs),
    exclude: (changed) => collectChanged(connection, changed),
    async countExcluded(range) {
      const [row] = await query(sql`
        select count(*) from changed
        where in_postgres
          or id in (select id from ${currentPurchases(catalogs, inFile(range))})`);
      return Number(row?.[0]);
    },
    async checksums(ranges) {
      const rows = await query(checksumsInFile(catalogs, ranges));
      return rows
        .sort(([one], [other]) => Number(one) - Number(other))
        .map(([, count, sum]) => ({ count: Number(count), sum: sum as bigint }));
    },
    async rowHashes(range) {
      const rows = await query(rowHashesInFile(catalogs, range));
      return (rows as [bigint, bigint, bigint][]).map(([id, created, hash]) => ({
        id,
        created,
        hash,
      }));
    },
    async ids(ranges) {
      const isInRange = join(ranges.map(inFile), ' or ');
      const rows = await query(
        sql`select id from ${currentPurchases(catalogs, isInRange)} as purchase`,
      );
      return rows.map(([id]) => id as bigint);
    },
    async bounds(range) {
      const [row] = await query(sql`
        select count(*), min(${creationInFile}), max(${creationInFile}), min(id), max(id)
        from ${currentPurchases(catalogs, inFile(range))} as purchase`);
      const [count, firstCreated, lastCreated, firstId, lastId] = row as bigint[] as [
        bigint,
        bigint,
        bigint,
        bigint,
        bigint,
      ];
      return { count, created: [firstCreated, lastCreated], ids: [firstId, lastId] };
    },
    histogram: async (range, axis, first, width) =>
      (await query(sql`
        select (${axes[axis]} - ${first}) // ${width} as bin, count(*)
        from ${currentPurchases(catalogs, inFile(range))} as purchase
        group by bin order by bin`)) as [bigint, bigint][],
  };
}

/** Fills the table `changed`. */
async function collectChanged(
  connection: DuckDBConnection,
  changed: AsyncIterable<ChangedId>,
): Promise<void> {
  await connection.run(
    'create or replace temp table changed (id bigint not null, in_postgres boolean not null)',
  );
  const types = [BIGINT, BOOLEAN];
  const appender = await connection.createAppender('changed', 'main', 'temp');
  try {
    let batch: ChangedId[] = [];
    const flush = () => {
      if (batch.length === 0) return;
      const chunk = DuckDBDataChunk.create(types, batch.length);
      chunk.setRows(batch);
      appender.appendDataChunk(chunk);
      batch = [];
    };
    for await (const row of changed) {
      batch.push(row);
      if (batch.length === 2048) flush();
    }
    flush();
  } finally {
    appender.closeSync();
  }
}
