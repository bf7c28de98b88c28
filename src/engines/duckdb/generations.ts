import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBInstance } from '@duckdb/node-api';
import { type DataVersion, NoGenerationError } from '../../domain/purchase-engine.ts';
import { isCorruption } from '../../duckdb/damage.ts';
import { isOutOfMemory } from '../../duckdb/memory.ts';
import { readUpToDate } from '../../purchase-store/up-to-date.ts';
import { createAttachments } from './attachments.ts';
import {
  type GenerationLease,
  pollIntervalMs,
  ServedOrganization,
  type Unavailability,
} from './served-organization.ts';

export type Generations = {
  /** The least recently used organization first. */
  readonly organizations: ReadonlyMap<bigint, ServedOrganization>;
  /** The generation that queries read at present; null if there is none from `source`. */
  version(organizationId: bigint, source: string | null): Promise<DataVersion | null>;
  /**
   * Runs `work` on the newest generation from `source` (any source if null), which stays attached
   * until `work` settles. Rejects with NoGenerationError if there is none. If `work` finds damage,
   * the file is not served any more, and the worker rebuilds it.
   */
  use<Result>(
    organizationId: bigint,
    source: string | null,
    work: (lease: GenerationLease) => Promise<Result>,
  ): Promise<Result>;
  /** Switches to a new generation at once instead of at the next poll. */
  refresh(organizationId: bigint): Promise<void>;
  /** Why a query of the organization was not answered from its files. */
  unavailability(organizationId: bigint): Unavailability;
  /** The organizations whose files are open, and the earliest instant that their responses show. */
  state(): { readonly open: number; readonly oldestAsOf: bigint | null };
  /** Runs `work`. If DuckDB runs out of memory, evicts idle files and runs `work` once more. */
  withEviction<Result>(work: () => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
};

export type GenerationsOptions = {
  readonly dataDirectory: string;
  /** Idle organizations beyond this number are evicted, the least recently used first. */
  readonly maxIdle: number;
  /** Receives the error of a generation that cannot be served. The previous one goes on serving. */
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

/**
 * Serves the generations that the worker publishes: attaches, refreshes, leases and evicts them.
 * `previous` are the organizations of an instance that this one replaces.
 */
export function createGenerations(
  instance: DuckDBInstance,
  { dataDirectory, maxIdle, onError }: GenerationsOptions,
  previous: Generations['organizations'] = new Map(),
): Generations {
  const organizations = new Map<bigint, ServedOrganization>();
  const attachments = createAttachments(instance, dataDirectory);
  const upToDate = readUpToDate(dataDirectory);
  const closing = new AbortController();
  const { evictBeyond, withEviction } = createEviction(organizations, onError);
  const onAttached = () => evictBeyond(maxIdle);
  const options = { dataDirectory, attachments, upToDate, withEviction, onAttached, onError };

  for (const [id, organization] of previous) {
    organizations.set(id, new ServedOrganization(id, options, organization));
  }

  const acquire = (id: bigint, source: string | null): Promise<GenerationLease | null> => {
    const organization = organizations.get(id) ?? new ServedOrganization(id, options);
    organizations.delete(id);
    organizations.set(id, organization);
    return organization.acquire(source);
  };

  const poll = async () => {
    const { signal } = closing;
    while (!signal.aborted) {
      await sleep(pollIntervalMs, undefined, { ref: false, signal }).catch(() => {});
      // A copy, because queries change the order of the map meanwhile.
      for (const organization of [...organizations.values()]) {
        if (signal.aborted) break;
        await organization.poll().catch((error: unknown) => onError(organization.id, error));
      }
    }
  };
  const polling = poll();

  return {
    organizations,

    async version(organizationId, source) {
      const lease = await acquire(organizationId, source);
      lease?.release();
      return lease === null ? null : { name: lease.published.file, asOf: lease.asOf };
    },

    async use(organizationId, source, work) {
      const lease = await acquire(organizationId, source);
      if (lease === null) throw new NoGenerationError();
      try {
        return await work(lease);
      } catch (error) {
        if (isCorruption(error)) {
          onError(organizationId, error);
          organizations.get(organizationId)?.reportDamage(lease.published.base);
        }
        throw error;
      } finally {
        lease.release();
      }
    },

    async refresh(organizationId) {
      await organizations.get(organizationId)?.refresh();
    },

    unavailability: (organizationId) =>
      organizations.get(organizationId)?.unavailability ?? 'not_loaded',

    state() {
      let open = 0;
      let oldestAsOf: bigint | null = null;
      for (const { isAttached, servedAsOf } of organizations.values()) {
        if (isAttached) open += 1;
        if (servedAsOf === null) continue;
        if (oldestAsOf === null || servedAsOf < oldestAsOf) oldestAsOf = servedAsOf;
      }
      return { open, oldestAsOf };
    },

    withEviction,

    async close() {
      closing.abort();
      await polling;
      for (const organization of organizations.values()) {
        await organization.close().catch((error: unknown) => onError(organization.id, error));
      }
      await attachments.close();
    },
  };
}

/** Evicts idle organizations in the order of the map. */
function createEviction(
  organizations: ReadonlyMap<bigint, ServedOrganization>,
  onError: GenerationsOptions['onError'],
) {
  let evicting: Promise<void> | null = null;
  const attached = () => [...organizations.values()].filter(({ isAttached }) => isAttached);

  const evictBeyond = async (max: number): Promise<void> => {
    for (const organization of attached()) {
      if (attached().length <= max) return;
      if (!organization.isEvictable) continue;
      await organization.evict().catch((error: unknown) => onError(organization.id, error));
    }
  };

  const withEviction = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (error) {
      if (!isOutOfMemory(error)) throw error;
      // Half: a query that fits into no memory must not evict every file each time.
      evicting ??= evictBeyond(Math.floor(attached().length / 2)).finally(() => {
        evicting = null;
      });
      await evicting;
      return work();
    }
  };

  return { evictBeyond, withEviction };
}
