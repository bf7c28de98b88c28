import { pipeline, Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliCompress, constants, createBrotliCompress, createGzip, gzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import Negotiator from 'negotiator';
import { addVary } from './vary.ts';

/**
 * Compression as a caller accepts it. Of our own, because a compressed answer keeps its
 * Content-Length, HEAD tells the same as GET, and a 304 has the tag that its 200 would
 * have: @fastify/compress streams what is large, and decides too late for that.
 */

// The quickest quality: still smaller than gzip's default, in a fraction of its time.
const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MIN_QUALITY + 1 } };
const [brotliBytes, gzipBytes] = [promisify(brotliCompress), promisify(gzip)];

/** The better one first. */
const compressors = {
  br: {
    whole: (body: Buffer) => brotliBytes(body, brotli),
    part: () => createBrotliCompress(brotli),
  },
  gzip: { whole: (body: Buffer) => gzipBytes(body), part: () => createGzip() },
} as const;
export type Encoding = keyof typeof compressors;
export const encodings = Object.keys(compressors) as Encoding[];

/** Below it, an answer fits into a packet or two as it is. */
const leastBytes = 1024;
const compressibleType = /^text\/|json|javascript|arrow/;

const kept = new WeakMap<Buffer, Partial<Record<Encoding, Promise<Buffer>>>>();

/** A body that is sent again and again: it is compressed once, when it is first asked for. */
export function keptCompressed(body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  kept.set(bytes, {});
  return bytes;
}

/** How a body is to be sent; null: as it is. The same for whoever asks before it is sent. */
export function encodingFor(
  request: FastifyRequest,
  reply: FastifyReply,
  body: string | Buffer | Readable,
): Encoding | null {
  const accepted = request.headers['accept-encoding'];
  if (accepted === undefined) return null;
  if (!compressibleType.test(String(reply.getHeader('Content-Type')))) return null;
  if (!(body instanceof Readable) && Buffer.byteLength(body) < leastBytes) return null;
  return preferredEncoding(accepted);
}

const offered = [...encodings, 'identity'];

/** The encoding that Accept-Encoding prefers (RFC 9110, 12.5.3); null for none. */
export function preferredEncoding(acceptEncoding: string | undefined): Encoding | null {
  const negotiator = new Negotiator({ headers: { 'accept-encoding': acceptEncoding } });
  // @types/negotiator lacks the option.
  const { encoding } = Negotiator.prototype as {
    encoding(available: string[], options: { readonly preferred: string[] }): string | undefined;
  };
  const best = encoding.call(negotiator, offered, { preferred: [...encodings] });
  return encodings.find((encoding) => encoding === best) ?? null;
}

/** Compresses what the routes registered from now on send, after all else is done to it. */
export function compressAnswers(app: FastifyInstance): void {
  app.addHook('onRoute', (route: RouteOptions) => {
    route.onSend = [route.onSend ?? [], compress].flat() as (typeof compress)[];
  });
}

function compress(
  request: FastifyRequest,
  reply: FastifyReply,
  body: unknown,
  done: (error: Error | null, body?: unknown) => void,
): void {
  // Of a stream that failed before its first byte, whose place an error takes.
  reply.removeHeader('Content-Encoding');
  if (!(typeof body === 'string' || Buffer.isBuffer(body) || body instanceof Readable)) {
    done(null, body);
    return;
  }
  const encoding = encodingFor(request, reply, body);
  addVary(reply, 'Accept-Encoding');
  if (encoding === null) {
    done(null, body);
    return;
  }
  reply.header('Content-Encoding', encoding).removeHeader('Content-Length');
  const { whole, part } = compressors[encoding];
  if (body instanceof Readable) {
    // Whichever of the two is destroyed takes the other one along.
    done(
      null,
      pipeline(body, part(), () => {}),
    );
    return;
  }
  const bytes = Buffer.from(body);
  const known = Buffer.isBuffer(body) ? kept.get(body) : undefined;
  const compressed = known?.[encoding] ?? whole(bytes);
  if (known !== undefined) known[encoding] = compressed;
  compressed.then((sent) => done(null, sent), done);
}
