import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../../domain/instant.ts';
import type { KeyWatch } from '../auth/key-watch.ts';
import type { FormatDescription } from '../formats/format.ts';
import { formats } from '../formats/negotiation.ts';
import type { ExportOutcome, HttpObserver } from '../observer.ts';
import { signalOf } from '../request/client-disconnect.ts';
import type { ExportOutput } from '../resource-services.ts';
import type { ApiRequest, ExportRoute } from '../route.ts';
import { resetUnlessComplete } from '../server/connections.ts';
import type { TakeExportSlot } from './export-slots.ts';

type ExportRequest = {
  readonly route: ExportRoute;
  readonly output: ExportOutput;
  readonly apiRequest: ApiRequest<unknown, unknown>;
};

export type ExportOptions = {
  readonly takeSlot: TakeExportSlot;
  readonly keyWatch: KeyWatch;
  /** An export is aborted if no bytes were sent for this time. */
  readonly stalledAfterMs: number;
  readonly observer: HttpObserver | undefined;
};

/**
 * Sends an export. A failure before the first byte rejects, and has an error response. A later
 * failure destroys the connection, so that no client takes a part for the whole. `requireFresh`
 * throws if the data are too old.
 */
export async function sendExport(
  request: FastifyRequest,
  reply: FastifyReply,
  { route, output, apiRequest }: ExportRequest,
  { takeSlot, keyWatch, stalledAfterMs, observer }: ExportOptions,
  requireFresh: (asOf: bigint) => void,
): Promise<FastifyReply> {
  const disconnect = signalOf(request);
  const freeSlot = takeSlot(request.credential);
  const key = keyWatch.begin(request.credential.keyId);
  const stalled = new AbortController();
  const stallTimer = setTimeout(
    () => stalled.abort(new Error(`no bytes were sent for ${stalledAfterMs} ms`)),
    stalledAfterMs,
  );
  let isBegun = false;
  let outcome: ExportOutcome = 'failed';
  let startedAt = 0;
  try {
    await route.open(
      apiRequest,
      output,
      async ({ result, asOf }, signal) => {
        requireFresh(asOf);
        if (isBegun) throw new Error('a part of the export was already sent');
        const parts = splitIntoPieces(result, stallTimer, observer);
        // Before the head is sent: a failure here still has an error response.
        const first = request.method === 'HEAD' ? null : await parts.next();
        if (signal.aborted) {
          await parts.return();
          throw signal.reason;
        }
        describe(reply, formats[output.format], route.name, asOf);
        resetUnlessComplete(request.raw, reply.raw);
        isBegun = true;
        startedAt = performance.now();
        observer?.exportStarted();
        if (first === null) {
          await parts.return();
          reply.send(Readable.from([]));
          return;
        }
        const body = Readable.from(
          (async function* all() {
            if (!first.done) yield first.value;
            for await (const part of parts) yield part;
            // Before the client sees the end and requests the next export.
            freeSlot();
          })(),
        );
        // A client that does not read notices nothing else.
        const abort = () => body.destroy(signal.reason as Error);
        signal.addEventListener('abort', abort, { once: true });
        reply.send(body);
        try {
          await finished(body, { writable: false });
        } finally {
          await parts.return();
        }
      },
      AbortSignal.any([disconnect, stalled.signal, key.signal]),
    );
    outcome = 'complete';
  } catch (error) {
    if (disconnect.aborted) outcome = 'disconnected';
    else if (key.signal.aborted) outcome = 'key_invalid';
    if (!isBegun) throw error;
    // The end of the body has destroyed the socket.
    if (outcome === 'failed') request.log.error({ err: error }, 'export aborted');
    if (outcome === 'key_invalid')
      request.log.info('export aborted: its key is not valid any more');
  } finally {
    clearTimeout(stallTimer);
    key.end();
    freeSlot();
    if (isBegun) observer?.exportEnded(outcome, performance.now() - startedAt);
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
  // Some file systems allow no colons in names.
  const file = `${name}-${instant.replaceAll(/[-:]/g, '')}.${format.extension}`;
  reply
    .header('X-Data-As-Of', instant)
    .header('Content-Disposition', `attachment; filename="${file}"`)
    .type(format.contentType);
}

/** A client that reads less than this within `stalledAfterMs` counts as stalled. */
const pieceBytes = 128 * 1024;

/** The parts in pieces. None is empty: an empty piece would end the stream. */
async function* splitIntoPieces(
  parts: AsyncGenerator<Uint8Array, void>,
  stallTimer: NodeJS.Timeout,
  observer: HttpObserver | undefined,
): AsyncGenerator<Uint8Array, void> {
  for await (const part of parts) {
    for (let begin = 0; begin < part.length; begin += pieceBytes) {
      const piece = part.subarray(begin, begin + pieceBytes);
      yield piece;
      observer?.exportSent(piece.length);
      stallTimer.refresh();
    }
  }
}
