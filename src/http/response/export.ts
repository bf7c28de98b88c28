import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../../domain/instant.ts';
import type { AsOf } from '../../domain/purchase-engine.ts';
import type { FormatDescription } from '../formats/format.ts';
import { signalOf } from '../request/client-disconnect.ts';
import type { ExportSlots } from './export-slots.ts';

/** What an export sends: a file, while it is written. */
export type Export = {
  readonly format: FormatDescription;
  /** The file's name, without the instant and the extension. */
  readonly name: string;
  /** Opens the file for as long as `take` runs; it is written as it is read. */
  open(
    take: (file: AsOf<AsyncGenerator<Uint8Array, void>>, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void>;
};

export type ExportOptions = {
  readonly slots: ExportSlots;
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
  { format, name, open }: Export,
  { slots, stalledAfterMs }: ExportOptions,
): Promise<FastifyReply> {
  const signal = signalOf(request);
  const leave = slots.take(request.credential.keyId);
  const stalled = new AbortController();
  const watch = setTimeout(
    () => stalled.abort(new Error(`nothing has moved for ${stalledAfterMs} ms`)),
    stalledAfterMs,
  );
  let isBegun = false;
  try {
    await open(
      async ({ result, asOf }, either) => {
        const parts = watched(result, watch);
        // Before the head is sent: what fails here is still answered with an error.
        const first = request.method === 'HEAD' ? null : await parts.next();
        if (either.aborted) {
          await parts.return();
          throw either.reason;
        }
        describe(reply, format, name, asOf);
        isBegun = true;
        if (first === null) {
          await parts.return();
          reply.send(Readable.from([]));
          return;
        }
        const body = Readable.from(
          (async function* all() {
            if (!first.done) yield first.value;
            for await (const part of parts) yield part;
            // Before the client can see the end, and ask for the next export.
            leave();
          })(),
        );
        // Whoever does not read on would not be told otherwise.
        const breakOff = () => body.destroy(either.reason as Error);
        either.addEventListener('abort', breakOff, { once: true });
        reply.send(body);
        try {
          await finished(body, { writable: false });
        } finally {
          await parts.return();
        }
      },
      AbortSignal.any([signal, stalled.signal]),
    );
  } catch (error) {
    if (!isBegun) throw error;
    // The body's end destroys the socket. Who left needs no word of it.
    if (!signal.aborted) request.log.error({ err: error }, 'broke off an export');
  } finally {
    clearTimeout(watch);
    leave();
  }
  return reply;
}

function describe(
  reply: FastifyReply,
  format: FormatDescription,
  name: string,
  asOf: bigint,
): void {
  const instant = formatInstant(asOf);
  // Colons are not allowed in every file system's names.
  const file = `${name}-${instant.replaceAll(/[-:]/g, '')}.${format.extension}`;
  reply
    .header('X-Data-As-Of', instant)
    .header('Content-Disposition', `attachment; filename="${file}"`)
    .type(format.contentType);
}

/** A client that reads less in the time that an export may stall reads nothing. */
const pieceBytes = 128 * 1024;

/** The parts in pieces, none of them empty: that would end a stream of bytes early. */
async function* watched(
  parts: AsyncGenerator<Uint8Array, void>,
  watch: NodeJS.Timeout,
): AsyncGenerator<Uint8Array, void> {
  for await (const part of parts) {
    for (let begin = 0; begin < part.length; begin += pieceBytes) {
      yield part.subarray(begin, begin + pieceBytes);
      watch.refresh();
    }
  }
}
