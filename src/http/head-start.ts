import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Credential } from '../postgres/api-keys.ts';
import type { FinishedAnswer } from './answer-cache.ts';
import { mayRead } from './authentication.ts';

/**
 * A question may be begun while Postgres is still asked about its key: on behalf of whom
 * the key belonged to when it was last let pass. Nothing of the answer is told, nor that
 * there is one, before the check has come out the same; then nobody waits for both.
 */

type HeadStart = Promise<FinishedAnswer | null> | null;

declare module 'fastify' {
  interface FastifyRequest {
    /** The answer to it, where it was begun; null in it where it could not be begun. */
    headStart: HeadStart;
  }
  interface FastifyContextConfig {
    /** Begins to answer for the key that the request is presumed to have. */
    begin?: (request: FastifyRequest, reply: FastifyReply, presumed: Credential) => HeadStart;
  }
}

/** Never fails: what is wrong with a request is found again once the key is known. */
export function giveHeadStart(
  request: FastifyRequest,
  reply: FastifyReply,
  presumed: Credential | null,
): HeadStart {
  const { begin } = request.routeOptions.config;
  if (begin === undefined || presumed === null || !mayRead(presumed)) return null;
  try {
    const begun = begin(request, reply, presumed);
    // Nobody may come to wait for it.
    begun?.catch(() => {});
    return begun;
  } catch {
    return null;
  }
}
