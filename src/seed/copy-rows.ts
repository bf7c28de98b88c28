import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';

/** Large enough that neither Node's streams nor the socket are paid for per row. */
const CHUNK_CHARACTERS = 128 * 1024;

/**
 * Sends the lines through one COPY. `statement` is a constant of the calling
 * file; the lines are pulled only as fast as Postgres takes them.
 */
export async function copyRows(
  client: pg.Client,
  statement: string,
  lines: Iterable<string>,
): Promise<void> {
  await pipeline(Readable.from(chunksOf(lines)), client.query(copyFrom(statement)));
}

function* chunksOf(lines: Iterable<string>): Generator<string> {
  let chunk = '';
  for (const line of lines) {
    chunk += line;
    if (chunk.length >= CHUNK_CHARACTERS) {
      yield chunk;
      chunk = '';
    }
  }
  if (chunk !== '') yield chunk;
}
