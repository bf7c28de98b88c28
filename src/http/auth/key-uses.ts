import type { FastifyBaseLogger } from 'fastify';
import type { Database } from '../../postgres/connection/pool.ts';
import { recordKeyUses } from '../../postgres/keys/api-keys.ts';

const intervalMs = 60_000;

export type KeyUses = {
  /** Does not wait for Postgres. */
  add(keyId: bigint): void;
  /** Records the last uses. */
  close(): Promise<void>;
};

/** Records once a minute when keys were last used. A failure affects no request. */
export function createKeyUses(database: Database, log: FastifyBaseLogger): KeyUses {
  /** The time of the last use that is not recorded, by `performance.now()`. */
  const pending = new Map<bigint, number>();
  let reported: string | null = null;
  const report = (problem: string | null, error?: unknown) => {
    if (problem !== null && problem !== reported) {
      log.warn({ err: error }, `last uses of API keys are not recorded: ${problem}`);
    }
    reported = problem;
  };
  const record = async () => {
    if (pending.size === 0) return;
    const now = performance.now();
    const uses = new Map(pending);
    pending.clear();
    try {
      const ages = new Map([...uses].map(([id, at]) => [id, now - at]));
      report(await recordKeyUses(database, ages));
    } catch (error) {
      report('Postgres did not accept them', error);
      // Uses since then are later.
      for (const [id, at] of uses) if (!pending.has(id)) pending.set(id, at);
    }
  };
  const timer = setInterval(record, intervalMs).unref();
  return {
    add: (keyId) => void pending.set(keyId, performance.now()),
    async close() {
      clearInterval(timer);
      await record();
    },
  };
}
