import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Credential } from '../postgres/api-keys.ts';
import type { FinishedAnswer } from './answer-cache.ts';
import { mayRead } from './authentication.ts';
import { signalOf } from './hang-up.ts';

/**
 * A question may be begun while Postgres is still asked about its key: on behalf of whom
 * the key belonged to when it was last let pass. Nothing of the answer is told, nor that
 * there is one, before the check has come out the same; then nobody waits for both. Where
 * it comes out otherwise the question is given up.
 */
export type HeadStart = {
  /** Null where only Postgres can answer. */
  readonly answer: Promise<FinishedAnswer | null>;
  /** Gives the question up. */
  refuse(): void;
};

declare module 'fastify' {
  interface FastifyRequest {
    /** The answer that was begun, once the key was let pass; null where there is none. */
    headStart: HeadStart | null;
  }
  interface FastifyContextConfig {
    /** Begins to answer for the key that the request is presumed to have. */
    begin?: (
      request: FastifyRequest,
      reply: FastifyReply,
      presumed: Credential,
      /** Aborted where the key is refused, or the caller leaves. */
      signal: () => AbortSignal,
    ) => HeadStart['answer'] | null;
  }
}

/** Never fails: what is wrong with a request is found again once the key is known. */
export function giveHeadStart(
  request: FastifyRequest,
  reply: FastifyReply,
  presumed: Credential | null,
): HeadStart | null {
  const { begin } = request.routeOptions.config;
  if (begin === undefined || presumed === null || !mayRead(presumed)) return null;
  // What is remembered is at hand before there is anything to give up.
  let refusal: AbortController | undefined;
  let either: AbortSignal | undefined;
  const signal = () => {
    refusal ??= new AbortController();
    either ??= AbortSignal.any([signalOf(request), refusal.signal]);
    return either;
  };
  try {
    const answer = begin(request, reply, presumed, signal);
    if (answer === null) return null;
    // Nobody may come to wait for it.
    answer.catch(() => {});
    return {
      answer,
      refuse() {
        refusal ??= new AbortController();
        refusal.abort(new Error('the key was refused'));
      },
    };
  } catch {
    return null;
  }
}
