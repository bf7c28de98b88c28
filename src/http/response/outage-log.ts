import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import { errorText } from '../../process/error-text.ts';

export type OutageLog = {
  /** Logs the first failure of a kind at once, with its stack. Counts the others until `intervalMs` later. */
  add(error: unknown, request: FastifyRequest): void;
  /** Logs the last counts. */
  close(): void;
};

const intervalMs = 1_000;

/**
 * Logs why requests failed while Postgres or ClickHouse is unavailable: a line for each kind of failure and
 * second. The line of each completed request has its id.
 */
export function createOutageLog(log: FastifyBaseLogger): OutageLog {
  const kinds = new Map<string, { requests: number; readonly timer: NodeJS.Timeout }>();

  const report = (kind: string): void => {
    const counted = kinds.get(kind);
    if (counted === undefined) return;
    if (counted.requests > 0) {
      log.error({ requests: counted.requests, failure: kind }, 'requests failed');
      counted.requests = 0;
      return;
    }
    clearInterval(counted.timer);
    kinds.delete(kind);
  };

  return {
    add(error, request) {
      const kind = kindOf(error);
      const counted = kinds.get(kind);
      if (counted !== undefined) {
        counted.requests += 1;
        return;
      }
      request.log.error({ err: error }, 'request failed');
      const timer = setInterval(() => report(kind), intervalMs).unref();
      kinds.set(kind, { requests: 0, timer });
    },
    close() {
      for (const [kind, { timer }] of kinds) {
        clearInterval(timer);
        report(kind);
      }
    },
  };
}

function kindOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  const text = errorText(error);
  return typeof code === 'string' ? `${text} (${code})` : text;
}
