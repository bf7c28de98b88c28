import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { type DuckDBRow, queryRows, streamChunks } from '../../src/duckdb/connection.ts';
import {
  createPreviousPurchases,
  keyColumns,
  type PurchaseKeys,
} from '../../src/purchase-store/format/last-purchases.ts';
import { dictionaries } from '../../src/purchase-store/format/layout.ts';
import { previousQuarterNames } from '../../src/purchase-store/format/previous-purchases.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../src/purchase-store/format/relations.ts';
import { checksumInFile, rowHashesInFile } from './checksums.ts';
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

/**
 * The reason why statistics over a base and a delta are wrong although the purchases are equal to those of
 * Postgres; null if there is none.
 */
export async function whyInconsistent(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
): Promise<string | null> {
  const damaged = await queryRows(connection, damagedDictionaries(catalogs));
  if (damaged.length > 0) return `the dictionaries of ${damaged.flat().join(', ')} are damaged`;
  const misplaced = await countMisplaced(connection, catalogs.base);
  if (misplaced > 0) return `the order of ${misplaced} purchases in the base is wrong`;
  return null;
}

/** Selects the names of dictionaries with repeated keys or values, or without the key of a purchase. */
function damagedDictionaries(catalogs: StoreCatalogs): Sql {
  const inspections = dictionaries.map((dictionary) => {
    const { name, ...names } = dictionary;
    const entries = dictionaryEntries(catalogs, dictionary);
    const key = raw(`purchase.${names.key}`);
    return sql`
      select ${name}::varchar where
        (select count(distinct key) < count(*) or count(distinct ${raw(names.value)}) < count(*)
          from ${entries})
        or exists (
          from ${currentPurchases(catalogs)} as purchase
          anti join ${entries} as known on known.key = ${key}
          where ${names.absent === null ? sql`true` : sql`${key} <> ${names.absent}::integer`}
        )`;
  });
  return join(inspections, ' union all ');
}

type Columns = readonly [
  ...keys: PurchaseKeys,
  ofAny: readonly number[],
  ofStatus: readonly number[],
];

/**
 * The number of a base's purchases that are not in the order of creation, or name another previous
 * purchase than the base has. Time series count customers by them.
 */
async function countMisplaced(connection: DuckDBConnection, base: string): Promise<number> {
  const rows = sql`
    select ${await keyColumns(connection, base)}, ${raw(previousQuarterNames)}
    from ${raw(base)}.purchase`;
  const purchases = createPreviousPurchases();
  let misplaced = 0;
  let latest = Number.NEGATIVE_INFINITY;
  for await (const chunk of streamChunks(connection, rows)) {
    const [customers, statuses, quarters, ofAny, ofStatus] =
      chunk.getColumns() as unknown as Columns;
    const expected = purchases.add([customers, statuses, quarters]);
    for (const [row, quarter] of quarters.entries()) {
      const isInPlace =
        quarter >= latest &&
        ofAny[row] === expected.ofAny[row] &&
        ofStatus[row] === expected.ofStatus[row];
      if (!isInPlace) misplaced += 1;
      latest = quarter;
    }
  }
  return misplaced;
}
