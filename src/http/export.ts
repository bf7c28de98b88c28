import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../domain/instant.ts';
import type { AsOf } from '../domain/purchase-engine.ts';
import type { ExportPlaces } from './export-places.ts';
import type { Format } from './formats/format.ts';
import type { Table, TableBatch } from './formats/table.ts';

/** What an export sends: rows as they come, and how to write them. */
export type Export = {
  readonly format: Format;
  readonly table: Table;
  /** The file's name, without the instant and the extension. */
  readonly name: string;
  /** Opens the rows for as long as `take` runs. */
  open(
    take: (rows: AsOf<AsyncIterable<TableBatch>>, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void>;
};

export type ExportOptions = {
  readonly places: ExportPlaces;
  /** An export in which nothing has moved for so long, whoever's fault it is, is broken off. */
  readonly stalledAfterMs: number;
};

/**
 * Sends an export. What fails before its first byte rejects, and is answered as any
 * error; afterwards the connection is broken, so that nobody takes a part for the whole.
 */
export async function sendExport(
  request: FastifyRequest,
  reply: FastifyReply,
  { format, table, name, open }: Export,
  { places, stalledAfterMs }: ExportOptions,
): Promise<FastifyReply> {
  const leave = places.take(request.credential.keyId, reply);
  const stalled = new AbortController();
  const watch = setTimeout(
    () => stalled.abort(new Error(`nothing has moved for ${stalledAfterMs} ms`)),
    stalledAfterMs,
  );
  try {
    await open(
      async ({ answer: batches, asOf }, signal) => {
        const parts = written(format, table, batches, watch);
        // Before the head is sent: what fails here is still answered with an error.
        const first = request.method === 'HEAD' ? null : await parts.next();
        describe(reply, format, name, asOf);
        if (first === null) {
          await parts.return();
          reply.send(Readable.from([]));
          return;
        }
        const body = Readable.from(startingWith(first, parts), { objectMode: false });
        // Whoever does not read on would not be told otherwise.
        const breakOff = () => body.destroy(signal.reason as Error);
        signal.addEventListener('abort', breakOff, { once: true });
        reply.send(body);
        try {
          await finished(body, { writable: false });
        } finally {
          await parts.return();
        }
      },
      AbortSignal.any([request.signal, stalled.signal]),
    );
  } catch (error) {
    if (!reply.sent) throw error;
    // Fastify has destroyed the socket. Who left needs no word of it.
    if (!request.signal.aborted) request.log.error({ err: error }, 'broke off an export');
  } finally {
    clearTimeout(watch);
    leave();
  }
  return reply;
}

function describe(reply: FastifyReply, format: Format, name: string, asOf: bigint): void {
  const instant = formatInstant(asOf);
  // Colons are not allowed in every file system's names.
  const file = `${name}-${instant.replaceAll(/[-:]/g, '')}.${format.extension}`;
  reply
    .header('X-Data-As-Of', instant)
    .header('Content-Disposition', `attachment; filename="${file}"`)
    .type(format.contentType);
}

async function* written(
  format: Format,
  table: Table,
  batches: AsyncIterable<TableBatch>,
  watch: NodeJS.Timeout,
): AsyncGenerator<Uint8Array, void> {
  const writer = format.writer(table);
  let beginning: Uint8Array | null = writer.begin();
  for await (const batch of batches) {
    const rows = writer.write(batch);
    yield beginning === null ? rows : Buffer.concat([beginning, rows]);
    beginning = null;
    watch.refresh();
  }
  yield Buffer.concat([beginning ?? new Uint8Array(0), writer.end()]);
}

/** Its caller ends `rest`. */
async function* startingWith(
  first: IteratorResult<Uint8Array, void>,
  rest: AsyncGenerator<Uint8Array, void>,
): AsyncGenerator<Uint8Array> {
  // Nothing at all would end a stream of bytes early.
  if (!first.done && first.value.length > 0) yield first.value;
  for await (const part of rest) if (part.length > 0) yield part;
}
