import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Encoding, encodingFor, encodings } from './compression.ts';

/** Depends on the content alone, so it is the same in every process and after every restart. */
export function entityTag(content: string): string {
  return `"${createHash('sha1').update(content).digest('base64url')}"`;
}

/**
 * The tag of the content as it is sent: other bytes need another strong tag. A weak one
 * would do as well, but is not the quoted string that the specification asks for.
 */
function tagAsSent(tag: string, encoding: Encoding | null): string {
  return encoding === null ? tag : `${tag.slice(0, -1)}-${encoding}"`;
}

/**
 * Whether If-None-Match names the content, in whichever encoding: a list, `*`, and weak
 * tags too (RFC 9110, 13.1.2).
 */
export function matches(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  const own = [tag, ...encodings.map((encoding) => tagAsSent(tag, encoding))];
  return Array.from(ifNoneMatch.matchAll(/"[^"]*"/g)).some(([listed]) => own.includes(listed));
}

/**
 * Conditional requests (section 4.5): tags the content of a 200, and answers 304
 * without it where the caller has it already. Returns what is to be sent.
 */
export function conditional(request: FastifyRequest, reply: FastifyReply, content: string) {
  const known = reply.getHeader('ETag');
  const tag = typeof known === 'string' ? known : entityTag(content);
  reply.header('ETag', tagAsSent(tag, encodingFor(request, reply, content)));
  if (!matches(request.headers['if-none-match'], tag)) return content;
  reply.code(304).removeHeader('Content-Type').removeHeader('Content-Length');
  return null;
}
