import { existsSync, renameSync, rmSync } from 'node:fs';
import { join, parse } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { detach, queryRows, quotePath, runStatement } from '../../duckdb/connection.ts';
import { invalidatesInstance, isDamage } from '../../duckdb/damage.ts';
import type { Current } from '../format/current.ts';
import { layoutVersion } from '../format/layout.ts';

/** What a saved delta shows: a part of a log from its beginning, over a base. */
export type SavedDelta = Pick<Current, 'layoutVersion' | 'base' | 'log'> & {
  /** The bytes of the part. */
  readonly position: number;
  readonly lines: number;
  readonly records: number;
  /** The checksum of the last batch: after a log was cut off, other batches may follow there. */
  readonly checksum: number | null;
};

/** The name of the file with the delta of a log. */
export const savedDeltaOf = (log: string): string =>
  `delta-${parse(log).name.replace(/^log-/, '')}.duckdb`;

export function removeSavedDelta(directory: string, log: string): void {
  rmSync(join(directory, savedDeltaOf(log)), { force: true });
}

/** Writes a delta to a DuckDB file beside the log, and replaces an earlier file. */
export async function writeSavedDelta(
  connection: DuckDBConnection,
  delta: string,
  directory: string,
  saved: SavedDelta,
): Promise<void> {
  const path = join(directory, savedDeltaOf(saved.log));
  const unfinished = `${path}.unfinished`;
  const file = fileOf(delta);
  const removeUnfinished = () => {
    for (const each of [unfinished, `${unfinished}.wal`]) rmSync(each, { force: true });
  };
  removeUnfinished();
  try {
    await connection.run(`
      attach ${quotePath(unfinished)} as ${file} (storage_version 'v1.5.0', block_size 16384);
      copy from database ${delta} to ${file}`);
    // The delta may have been loaded from an earlier file.
    await runStatement(
      connection,
      sql`create or replace table ${raw(file)}.saved as select ${JSON.stringify(saved)} as content`,
    );
    // A checkpoint syncs the file to the disk.
    await connection.run(`checkpoint ${file}`);
    await detach(connection, file);
    renameSync(unfinished, path);
  } catch (error) {
    await detach(connection, file).finally(removeUnfinished);
    throw error;
  }
}

/**
 * Loads the saved delta of a log into an empty database. Returns null and loads nothing if there is no
 * file, if `isShown` returns false, or if the file is damaged. A damaged file is removed, because the log
 * has all that it shows.
 */
export async function loadSavedDelta(
  connection: DuckDBConnection,
  delta: string,
  directory: string,
  { base, log }: Pick<Current, 'base' | 'log'>,
  isShown: (saved: SavedDelta) => boolean,
): Promise<SavedDelta | null> {
  const path = join(directory, savedDeltaOf(log));
  if (!existsSync(path)) return null;
  const file = fileOf(delta);
  try {
    await connection.run(`attach ${quotePath(path)} as ${file} (read_only)`);
    const [row] = await queryRows(connection, sql`from ${raw(file)}.saved`);
    const saved = JSON.parse(row?.[0] as string) as SavedDelta;
    const isOfLog =
      saved.layoutVersion === layoutVersion && saved.base === base && saved.log === log;
    if (!isOfLog || !isShown(saved)) return null;
    await connection.run(`copy from database ${file} to ${delta}`);
    return saved;
  } catch (error) {
    if (!isDamage(error)) throw error;
    try {
      rmSync(path);
    } catch {}
    if (invalidatesInstance(error)) throw error;
    return null;
  } finally {
    await detach(connection, file);
  }
}

const fileOf = (delta: string): string => `${delta}_file`;
