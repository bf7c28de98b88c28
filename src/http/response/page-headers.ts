import type { FastifyReply, FastifyRequest } from 'fastify';
import { formatInstant } from '../../domain/instant.ts';
import { parseQueryString, queryStringOf } from '../request/parameters.ts';

const nextCursor = Symbol('nextCursor');
const dataAsOf = Symbol('dataAsOf');

/** A page of a list (section 2.13). Its content does not show the cursor; null on the last page. */
export const pageOf = <Item>(data: Item[], cursor: string | null) => ({
  data,
  has_more: cursor !== null,
  [nextCursor]: cursor,
});

/** A page that shows all changes up to this instant, in microseconds since 1970. */
export const withDataAsOf = <Page extends object>(page: Page, instant: bigint): Page =>
  Object.assign(page, { [dataAsOf]: instant });

/** The cursor of the next page; null for the last page, or if the body is no list. */
export function cursorAfter(body: unknown): string | null {
  return (body as { readonly [nextCursor]?: string | null })[nextCursor] ?? null;
}

/** Sets the headers that a list adds to its content. */
export function setPageHeaders(request: FastifyRequest, reply: FastifyReply, body: unknown): void {
  setNextPage(request, reply, cursorAfter(body));
  const instant = (body as { readonly [dataAsOf]?: bigint })[dataAsOf];
  if (instant !== undefined) reply.header('X-Data-As-Of', formatInstant(instant));
}

/**
 * Sets the headers X-Next-Cursor and Link (RFC 8288) if there is a next page. The reference is
 * relative and only a query, because a proxy may change host and path.
 */
export function setNextPage(
  request: FastifyRequest,
  reply: FastifyReply,
  cursor: string | null,
): void {
  if (cursor === null) return;
  reply.header('X-Next-Cursor', cursor);
  // Encoded again, because the query string may contain `>` or bytes that no header allows.
  const query = new URLSearchParams(parseQueryString(queryStringOf(request.raw.url)));
  query.set('starting_after', cursor);
  reply.header('Link', `<?${query}>; rel="next"`);
}
