import { pipeline, Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliCompress, constants, createBrotliCompress, createGzip, gzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import Negotiator from 'negotiator';
import { addVary } from './vary.ts';

/**
 * Compression by Accept-Encoding. `@fastify/compress` is not used: it streams large
 * responses, which then have no Content-Length, and selects the encoding after the ETag is set. HEAD
 * needs the headers of GET, and a 304 the tag of its 200.
 */

// With this fast quality, output is smaller than gzip's default, in a fraction of its time.
const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MIN_QUALITY + 1 } };
const [brotliBytes, gzipBytes] = [promisify(brotliCompress), promisify(gzip)];

/** In the order of preference. */
const compressors = {
  br: {
    compress: (body: Buffer) => brotliBytes(body, brotli),
    createStream: () => createBrotliCompress(brotli),
  },
  gzip: { compress: (body: Buffer) => gzipBytes(body), createStream: () => createGzip() },
} as const;
type Encoding = keyof typeof compressors;
export const encodings = Object.keys(compressors) as Encoding[];

/** Smaller responses fit into one or two packets without compression. */
const minBytes = 1024;
const compressibleType = /^text\/|json|javascript|arrow/;

const compressedBodies = new WeakMap<Buffer, Partial<Record<Encoding, Promise<Buffer>>>>();

/** Returns a buffer whose compressed forms are cached, for bodies that never change. */
export function staticBody(body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  compressedBodies.set(bytes, {});
  return bytes;
}

/** The encoding of a response; null for none. The result is the same at any time before sending. */
export function encodingFor(
  request: FastifyRequest,
  reply: FastifyReply,
  body: string | Buffer | Readable,
): Encoding | null {
  const accepted = request.headers['accept-encoding'];
  if (accepted === undefined) return null;
  if (!compressibleType.test(String(reply.getHeader('Content-Type')))) return null;
  if (!(body instanceof Readable) && Buffer.byteLength(body) < minBytes) return null;
  return preferredEncoding(accepted);
}

const available = [...encodings, 'identity'];

/** The encoding that Accept-Encoding prefers (RFC 9110, 12.5.3); null for none. */
export function preferredEncoding(acceptEncoding: string | undefined): Encoding | null {
  const negotiator = new Negotiator({ headers: { 'accept-encoding': acceptEncoding } });
  // @types/negotiator lacks the option.
  const { encoding } = Negotiator.prototype as {
    encoding(available: string[], options: { readonly preferred: string[] }): string | undefined;
  };
  const best = encoding.call(negotiator, available, { preferred: [...encodings] });
  return encodings.find((encoding) => encoding === best) ?? null;
}

/** Compresses the responses of routes that are registered later, after their other hooks. */
export function compressResponses(app: FastifyInstance): void {
  app.addHook('onRoute', (route: RouteOptions) => {
    route.onSend = [route.onSend ?? [], compressPayload].flat() as (typeof compressPayload)[];
  });
}

function compressPayload(
  request: FastifyRequest,
  reply: FastifyReply,
  body: unknown,
  done: (error: Error | null, body?: unknown) => void,
): void {
  // An error replaces a stream that failed before its first byte.
  reply.removeHeader('Content-Encoding');
  addVary(reply, 'Accept-Encoding');
  if (!(typeof body === 'string' || Buffer.isBuffer(body) || body instanceof Readable)) {
    done(null, body);
    return;
  }
  const encoding = encodingFor(request, reply, body);
  if (encoding === null) {
    done(null, body);
    return;
  }
  reply.header('Content-Encoding', encoding).removeHeader('Content-Length');
  const { compress, createStream } = compressors[encoding];
  if (body instanceof Readable) {
    // `pipeline` destroys both streams if one is destroyed.
    done(
      null,
      pipeline(body, createStream(), () => {}),
    );
    return;
  }
  const bytes = Buffer.from(body);
  const cached = Buffer.isBuffer(body) ? compressedBodies.get(body) : undefined;
  const compressed = cached?.[encoding] ?? compress(bytes);
  if (cached !== undefined) cached[encoding] = compressed;
  compressed.then((content) => done(null, content), done);
}
