import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { encodingFor } from './compression.ts';

/** A hash of the content, so the tag is the same in every process and after a restart. */
export function entityTag(content: string | Buffer): string {
  return `"${createHash('sha1').update(content).digest('base64url')}"`;
}

/** Whether If-None-Match (a list, also of weak tags, or `*`) matches the tag (RFC 9110, 13.1.2). */
export function matchesTag({ headers }: FastifyRequest, tag: string): boolean {
  const ifNoneMatch = headers['if-none-match'];
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  return Array.from(ifNoneMatch.matchAll(/"[^"]*"/g), ([listed]) => listed).includes(tag);
}

/** Conditional requests (section 4.5): sets the ETag of a 200, or makes it a 304. Returns the body. */
export function conditional(
  request: FastifyRequest,
  reply: FastifyReply,
  tag: string,
  content: string | Buffer,
) {
  // Weak for a compressed response: a strong tag identifies bytes.
  reply.header('ETag', encodingFor(request, reply, content) === null ? tag : `W/${tag}`);
  if (!matchesTag(request, tag)) return content;
  reply.code(304).removeHeader('Content-Type').removeHeader('Content-Length');
  return undefined;
}
