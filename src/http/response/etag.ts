import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Encoding, encodingFor } from './compression.ts';

/** Depends on the content alone, so it is the same in every process and after every restart. */
export function entityTag(content: string | Buffer): string {
  return `"${createHash('sha1').update(content).digest('base64url')}"`;
}

/** The tag of the content as it is sent: a strong one promises bytes, which compression changes. */
function tagAsSent(tag: string, encoding: Encoding | null): string {
  return encoding === null ? tag : `W/${tag}`;
}

/** Whether If-None-Match names the tag: a list, `*`, and weak tags too (RFC 9110, 13.1.2). */
export function matches(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  return Array.from(ifNoneMatch.matchAll(/"[^"]*"/g), ([listed]) => listed).includes(tag);
}

/**
 * Conditional requests (section 4.5): tags the content of a 200, and answers 304
 * without it where the caller has it already. Returns what is to be sent.
 */
export function conditional(
  request: FastifyRequest,
  reply: FastifyReply,
  content: string | Buffer,
) {
  const known = reply.getHeader('ETag');
  const tag = typeof known === 'string' ? known : entityTag(content);
  reply.header('ETag', tagAsSent(tag, encodingFor(request, reply, content)));
  if (!matches(request.headers['if-none-match'], tag)) return content;
  reply.code(304).removeHeader('Content-Type').removeHeader('Content-Length');
  return null;
}
