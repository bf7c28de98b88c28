import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';

/** A row's values by column; objects become JSON. */
export type Row = { readonly [column: string]: string | number | boolean | Date | object | null };

/** Large chunks: the cost of streams and sockets is per chunk. */
const chunkCharacters = 128 * 1024;
const special = /[\\\t\n\r]/;
const specials = new RegExp(special, 'g');
const escapes: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/**
 * Sends the next `count` rows through one COPY, as fast as Postgres reads them. They get
 * consecutive ids; returns the first. All rows have the same columns.
 */
export async function copyRows(
  client: pg.Client,
  table: string,
  organizationId: string,
  rows: Iterator<Row>,
  count: number,
): Promise<number> {
  if (count === 0) return 0;
  const firstId = await reserveIds(client, table, count);
  const first: Row = rows.next().value;
  const columns = ['id', 'organization_id', ...Object.keys(first)].join(', ');

  function* chunks(): Generator<string> {
    let chunk = '';
    let row = first;
    for (let index = 0; index < count; index++) {
      if (index > 0) row = rows.next().value;
      chunk += `${firstId + index}\t${organizationId}`;
      for (const value of Object.values(row)) chunk += `\t${copyText(value)}`;
      chunk += '\n';
      if (chunk.length < chunkCharacters && index < count - 1) continue;
      yield chunk;
      chunk = '';
    }
  }
  const copy = copyFrom(`copy ${table} (${columns}) from stdin`);
  await pipeline(Readable.from(chunks()), client.query(copy));
  return firstId;
}

/**
 * Takes consecutive ids of the table's identity sequence. Between nextval and setval, another
 * seeder could take the same ids: a lock of the transaction prevents that. If another writer
 * takes them, the primary key refuses the COPY.
 */
async function reserveIds(client: pg.Client, table: string, count: number): Promise<number> {
  await client.query('select pg_advisory_xact_lock(7332683)');
  const { rows } = await client.query<{ last_id: string }>(
    `select setval(sequence, nextval(sequence) + $2::bigint - 1) as last_id
       from (select pg_get_serial_sequence($1, 'id')::regclass as sequence) as identity`,
    [table, count],
  );
  return Number(rows[0]?.last_id) - count + 1;
}

/** In the text format of COPY. */
function copyText(value: Row[string]): string {
  if (value === null) return '\\N';
  if (typeof value === 'string') {
    // The test takes a fifth of the time of a replacement that finds nothing.
    if (!special.test(value)) return value;
    return value.replace(specials, (found) => escapes[found] as string);
  }
  if (typeof value !== 'object') return String(value);
  return value instanceof Date ? value.toISOString() : copyText(JSON.stringify(value));
}
