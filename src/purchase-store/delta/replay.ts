import type { DuckDBConnection } from '@duckdb/node-api';
import { purchaseColumns } from '../../domain/purchase.ts';
import { copiedLines, copiedValue, recordTypes } from '../format/copied-lines.ts';
import { type EncodedTable, encodedPurchases, extendDictionaries } from '../format/encode-sql.ts';
import { entriesOfDelta, supersededColumns } from '../format/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../format/relations.ts';

/** Lines of a log after those that a delta shows. */
export type LogLines = {
  readonly path: string;
  /** The number of earlier lines of the log. */
  readonly shownLines: number;
  readonly lines: number;
  readonly bytes: number;
  read(): Buffer;
};

/**
 * Replays lines of a log, within a transaction. Reading 20,000 records row by row took 0.7 s with a base of a million purchases,
 * and 0.17 s in this way.
 */
export async function replay(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  lines: Pick<LogLines, 'path' | 'lines' | 'shownLines'>,
): Promise<void> {
  const change = `${catalogs.delta}.change`;
  const records: EncodedTable = {
    table: 'record',
    entries: (dictionary) => dictionaryEntries(catalogs, dictionary).text,
  };
  await connection.run(readRecords(lines));
  await connection.run(`
    delete from ${change} where sign > 0 and id in (select id from record);
    insert into ${change} by name
    select -1 as sign, ${supersededColumns} from ${catalogs.base}.purchase
    where id in (
      select id from record except select id from ${change} where sign < 0
    );
    delete from record where not present;
    ${extendDictionaries(records, (dictionary) => entriesOfDelta(catalogs.delta, dictionary))}
    insert into ${change} by name select 1 as sign, * from (${encodedPurchases(records)});
    drop table record`);
}

/** Fills the temp table `record`: each changed purchase once, in its last state. */
function readRecords({
  path,
  lines,
  shownLines,
}: Pick<LogLines, 'path' | 'lines' | 'shownLines'>): string {
  const fields = purchaseColumns.map(({ name, kind }) => [name, recordTypes[kind]] as const);
  const records = copiedLines(path, [['kind', 'varchar'], ...fields], {
    // A line of a deleted purchase has its id only.
    null_padding: true,
    skip: shownLines,
  });
  return `
    create or replace temp table record as
    select kind = 'u' as present, ${purchaseColumns.map(copiedValue).join(', ')}
    from (from ${records} limit ${lines})
    where kind in ('u', 'd');
    -- Not a window: two threads in DuckDB 1.5's window operator made DuckDB invalidate its instance.
    delete from record where rowid not in (select max(rowid) from record group by id)`;
}
