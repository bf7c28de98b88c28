import type { FastifyReply, FastifyRequest } from 'fastify';
import { parseQueryString, queryStringOf } from '../request/query-string.ts';

/** Where the page after an answer begins; null where it is the last one, or no list. */
export function cursorAfter(answer: unknown): string | null {
  const { data, has_more: hasMore } = answer as {
    data?: readonly { readonly id: string }[];
    has_more?: boolean;
  };
  return hasMore === true ? (data?.at(-1)?.id ?? null) : null;
}

/**
 * Says where the next page is (RFC 8288). The reference is a query alone, relative to
 * the URL asked for: only that is right behind a proxy that changes host or path.
 */
export function linkNextPage(request: FastifyRequest, reply: FastifyReply, cursor: string): void {
  // Written anew, for what came may hold `>` or bytes that no header takes.
  const query = new URLSearchParams(parseQueryString(queryStringOf(request.raw.url)));
  query.set('starting_after', cursor);
  reply.header('Link', `<?${query}>; rel="next"`);
}
