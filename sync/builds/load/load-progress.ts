import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { z } from 'zod';
import { queryRows } from '../../../src/duckdb/connection.ts';
import { jsonOf } from '../../../src/process/json-file.ts';
import { watermarkFields } from '../../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../../src/purchase-store/format/layout.ts';

const integer = z.string().transform(BigInt);

/** The progress of a load; written with the rows. */
const loadProgress = z.object({
  /** A snapshot from before the first row. Later changes are read after the last row. */
  since: z.object({ ...watermarkFields, database: z.string(), fingerprint: z.string() }),
  /** The last row that was read; null before the first row. */
  after: z.object({ createdAt: integer, id: integer }).nullable(),
  loaded: z.number(),
  /** The number of rows at the start of the load. */
  expected: z.number(),
});
export type LoadProgress = z.output<typeof loadProgress>;

/** Null if the file has no load, or another layout. */
export async function readLoadProgress(
  connection: DuckDBConnection,
  catalog: string,
): Promise<LoadProgress | null> {
  // Checking first whether the table exists would read every open file, and block closing them.
  const [row] = await queryRows(
    connection,
    sql`select content from ${raw(catalog)}.load_progress where layout_version = ${layoutVersion}`,
  );
  return row === undefined ? null : loadProgress.parse(JSON.parse(row[0] as string));
}

/** Only the worker reads this table of a base. Call it within a transaction. */
export async function writeLoadProgress(
  connection: DuckDBConnection,
  catalog: string,
  progress: LoadProgress,
): Promise<void> {
  await connection.run(
    `create or replace table ${catalog}.load_progress (layout_version integer, content varchar)`,
  );
  await queryRows(
    connection,
    sql`insert into ${raw(catalog)}.load_progress values (${layoutVersion}, ${jsonOf(progress)})`,
  );
}
