import type { FastifyReply, FastifyRequest } from 'fastify';
import { parseQueryString, queryStringOf } from '../request/parameters.ts';

/** The cursor of the next page; null for the last page, or if the body is no list. */
export function cursorAfter(body: unknown): string | null {
  const { data, has_more: hasMore } = body as {
    data?: readonly { readonly id: string }[];
    has_more?: boolean;
  };
  return hasMore === true ? (data?.at(-1)?.id ?? null) : null;
}

/**
 * Sets the header Link (RFC 8288) if there is a next page. The reference is relative and only a
 * query, because a proxy may change host and path.
 */
export function setNextPageLink(
  request: FastifyRequest,
  reply: FastifyReply,
  cursor: string | null,
): void {
  if (cursor === null) return;
  // Encoded again, because the query string may contain `>` or bytes that no header allows.
  const query = new URLSearchParams(parseQueryString(queryStringOf(request.raw.url)));
  query.set('starting_after', cursor);
  reply.header('Link', `<?${query}>; rel="next"`);
}
