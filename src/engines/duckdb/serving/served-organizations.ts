import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import {
  type DataVersion,
  NoGenerationError,
  type Versioned,
} from '../../../domain/purchase-engine.ts';
import { isOutOfMemory } from '../../../duckdb/memory.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { isOutOfFiles } from '../../../process/open-files.ts';
import { createBases } from '../../../purchase-store/open-store.ts';
import type { TickReader } from '../../../purchase-store/ticks/published-tick.ts';
import { oldestOf, type ServedInstants } from '../../served-instants.ts';
import { type CachedLists, createListCache } from '../list/list-cache.ts';
import { createBaseCache } from './generation.ts';
import type { Unavailability } from './organization-files.ts';
import { type Lease, ServedOrganization, type UseOptions } from './served-organization.ts';
import type { SharedBase } from './versioned-store.ts';

export type ServedOrganizations = {
  /** The least recently used organization first. */
  readonly all: ReadonlyMap<bigint, ServedOrganization>;
  /** The version that queries read at present; null if there is none from `source`. */
  version(organizationId: bigint, source: string | null): Promise<DataVersion | null>;
  /**
   * Runs `work` on `connection` with the newest data from `source` (any source if null). Rejects
   * with NoGenerationError if there are none. If `work` finds damage, the files are not served any
   * more, and the worker rebuilds them.
   */
  use<Result>(
    organizationId: bigint,
    source: string | null,
    connection: DuckDBConnection,
    work: (lease: Lease) => Promise<Result>,
    options?: UseOptions,
  ): Promise<Result>;
  /** Returns what `read` finds in the cached lists of the newest data from `source`; null if it finds nothing. */
  cached<Result>(
    organizationId: bigint,
    source: string | null,
    read: (lists: CachedLists) => Result | null,
  ): Promise<Versioned<Result> | null>;
  /** Why a query of the organization was not answered from its files. */
  unavailability(organizationId: bigint): Unavailability;
  /** The organizations whose files are open, and their earliest instants. */
  state(): { readonly open: number; readonly oldest: ServedInstants | null };
  /** Runs `work`. If memory or descriptors run out, closes unused files and runs `work` once more. */
  withEviction<Result>(work: () => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
};

export type ServedOrganizationsOptions = {
  readonly dataDirectory: string;
  /**
   * The process has one: with another, which reads at other times, the instants of a client's responses would go
   * back.
   */
  readonly ticks: TickReader;
  /** Beyond this size, unused organizations are closed, the least recently used first. */
  readonly maxBytes: number;
  readonly shortcuts: Shortcuts;
  /** Receives the error of files that cannot be served. */
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

const maxIdleMs = 15 * 60_000;
const idleCheckMs = 60_000;

/**
 * The organizations that queries have read. An organization that nobody queries costs nothing.
 * `previous` are those of an instance that this one replaces.
 */
export function createServedOrganizations(
  instance: DuckDBInstance,
  { dataDirectory, ticks, maxBytes, shortcuts, onError }: ServedOrganizationsOptions,
  previous: ServedOrganizations['all'] = new Map(),
): ServedOrganizations {
  const all = new Map<bigint, ServedOrganization>();
  const bases = createBases<SharedBase>(instance, (descriptor) => ({
    descriptor,
    cache: createBaseCache(shortcuts),
  }));
  const { evictBeyond, evictIdle, withEviction } = createEviction(all, onError);
  const options = {
    dataDirectory,
    instance,
    bases,
    ticks,
    lists: createListCache(shortcuts),
    shortcuts,
    opening: new PQueue({ concurrency: 1 }),
    withEviction,
    onOpened: () => evictBeyond(maxBytes),
    onError,
  };
  for (const [id, organization] of previous) {
    all.set(id, new ServedOrganization(id, options, organization));
  }
  const evicting = setInterval(() => void evictIdle(), idleCheckMs).unref();

  const of = (id: bigint): ServedOrganization => {
    const organization = all.get(id) ?? new ServedOrganization(id, options);
    all.delete(id);
    all.set(id, organization);
    return organization;
  };

  return {
    all,
    version: (organizationId, source) => of(organizationId).version(source),

    cached: (organizationId, source, read) => of(organizationId).cached(source, read),

    async use(organizationId, source, connection, work, useOptions) {
      const used = await of(organizationId).use(source, connection, work, useOptions);
      if (used === null) throw new NoGenerationError();
      return used.result;
    },

    unavailability: (organizationId) => all.get(organizationId)?.unavailability ?? 'not_loaded',

    state() {
      const organizations = [...all.values()];
      const open = organizations.filter(({ isOpen }) => isOpen).length;
      const served = organizations.flatMap(({ servedInstants }) => servedInstants ?? []);
      return { open, oldest: oldestOf(served) };
    },

    withEviction,

    async close() {
      clearInterval(evicting);
      for (const organization of all.values()) {
        await organization.close().catch((error: unknown) => onError(organization.id, error));
      }
    },
  };
}

/** Closes unused organizations in the order of the map. */
function createEviction(
  all: Map<bigint, ServedOrganization>,
  onError: ServedOrganizationsOptions['onError'],
) {
  let evicting: Promise<void> | null = null;
  const weightOfAll = () => [...all.values()].reduce((sum, { weight }) => sum + weight, 0);

  const evict = async (organization: ServedOrganization): Promise<void> => {
    await organization.evict().catch((error: unknown) => onError(organization.id, error));
  };

  const evictBeyond = async (maxBytes: number): Promise<void> => {
    let bytes = weightOfAll();
    for (const organization of [...all.values()]) {
      if (bytes <= maxBytes) return;
      if (!organization.isOpen || !organization.isEvictable) continue;
      bytes -= organization.weight;
      await evict(organization);
    }
  };

  const evictIdle = async (): Promise<void> => {
    const idleSince = performance.now() - maxIdleMs;
    for (const organization of [...all.values()]) {
      if (organization.lastUsedAt > idleSince) return;
      if (organization.isOpen && organization.isEvictable) await evict(organization);
    }
  };

  const withEviction = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (error) {
      if (!isOutOfMemory(error) && !isOutOfFiles(error)) throw error;
      // Half: a query that fits into no memory must not evict every file each time.
      evicting ??= evictBeyond(Math.floor(weightOfAll() / 2)).finally(() => {
        evicting = null;
      });
      await evicting;
      return work();
    }
  };

  return { evictBeyond, evictIdle, withEviction };
}
