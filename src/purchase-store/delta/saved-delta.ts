import { existsSync, renameSync, rmSync } from 'node:fs';
import { parse } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { detach, queryRows, quotePath, runStatement } from '../../duckdb/connection.ts';

/** What a saved delta shows: a part of a log from its beginning, over a base. */
export type SavedDelta = {
  readonly layoutVersion: number;
  readonly base: string | null;
  readonly log: string;
  readonly position: number;
  readonly lines: number;
  readonly records: number;
  /** Of the last batch: a log that was cut off may have others there now. */
  readonly checksum: number | null;
};

/** The name of the file with the delta of a log. */
export const savedDeltaOf = (log: string): string =>
  `delta-${parse(log).name.replace(/^log-/, '')}.duckdb`;

/** Writes a delta to a DuckDB file, in the place of an earlier one. */
export async function saveDelta(
  connection: DuckDBConnection,
  delta: string,
  path: string,
  saved: SavedDelta,
): Promise<void> {
  const unfinished = `${path}.unfinished`;
  const file = fileOf(delta);
  rmSync(unfinished, { force: true });
  try {
    await connection.run(`
      attach ${quotePath(unfinished)} as ${file} (storage_version 'v1.5.0', block_size 16384);
      copy from database ${delta} to ${file}`);
    await runStatement(
      connection,
      sql`create or replace table ${raw(file)}.saved as select ${JSON.stringify(saved)} as content`,
    );
    // Writes the file to the disk.
    await connection.run(`checkpoint ${file}`);
    await detach(connection, file);
    renameSync(unfinished, path);
  } finally {
    await detach(connection, file);
    rmSync(unfinished, { force: true });
  }
}

/** Loads a saved delta into an empty database. Returns null, and loads nothing, unless it `isUsable`. */
export async function loadDelta(
  connection: DuckDBConnection,
  delta: string,
  path: string,
  isUsable: (saved: SavedDelta) => boolean,
): Promise<SavedDelta | null> {
  if (!existsSync(path)) return null;
  const file = fileOf(delta);
  try {
    await connection.run(`attach ${quotePath(path)} as ${file} (read_only)`);
    const [row] = await queryRows(connection, sql`from ${raw(file)}.saved`);
    const saved = JSON.parse(row?.[0] as string) as SavedDelta;
    if (!isUsable(saved)) return null;
    await connection.run(`copy from database ${file} to ${delta}`);
    return saved;
  } finally {
    await detach(connection, file);
  }
}

const fileOf = (delta: string): string => `${delta}_file`;
