import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBInstance } from '@duckdb/node-api';
import { isDamage } from '../../duckdb/damage.ts';
import { isOutOfMemory } from '../../duckdb/memory.ts';
import { layoutVersion } from '../../purchase-store/layout.ts';
import {
  currentFile,
  organizationDirectory,
  type PublishedGeneration,
  publishedFileName,
  readPublished,
  stampOf,
} from '../../purchase-store/published-generation.ts';
import { readUpToDate } from '../../purchase-store/up-to-date.ts';
import { sendWorkerRequest } from '../../purchase-store/worker-requests.ts';
import { type Attached, createAttachments } from './attachments.ts';
import type { Generation } from './labels.ts';

/** An attached generation, valid until it is released. */
export type GenerationLease = {
  readonly generation: Generation;
  /** Up to when it is known to show everything; microseconds since 1970. */
  readonly asOf: bigint;
  /** The name of the generation's file; never used for another one. */
  readonly file: string;
  /** That file, opened: the worker may have removed it meanwhile. */
  readonly descriptor: number;
  release(): void;
};

export type Generations = {
  /**
   * The newest published generation of an organization; null where there is none that was
   * read from `source` (any source if that is null) and can be read.
   */
  acquire(organizationId: bigint, source: string | null): Promise<GenerationLease | null>;
  /** Serves the file no longer and asks the worker to rebuild it. */
  reportDamage(organizationId: bigint, file: string): void;
  /** Switches to what was published a moment ago, rather than at the next look around. */
  refresh(organizationId: bigint): Promise<void>;
  /** Does it once more, with the memory of all that nobody uses, where DuckDB has too little. */
  withRoom<Result>(work: () => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
};

type Organization = {
  readonly id: bigint;
  readonly directory: string;
  current: Attached | null;
  /** The generation that was served last, and up to when it shows everything: what was known once holds. */
  served: PublishedGeneration | null;
  asOf: bigint;
  /** Whether a worker goes on saying that nothing newer is to come. */
  isConfirmed: boolean;
  /** Identifies the CURRENT file that was last looked at. */
  seen: string | null;
  /** When that was, by this process's clock. */
  lookedAt: number;
  refreshing: Promise<void> | null;
  /** Who has asked for it, and does not have it yet. */
  waiting: number;
  lastUsed: number;
  failures: number;
  /** The file that was attached last, or could not be. */
  attaching: string | null;
  /** A file that cannot be read (empty: CURRENT itself), and when the worker was told; monotonic. */
  damaged: { readonly file: string; toldAt: number } | null;
  /** What is published cannot be served: what is attached could not be had back. */
  isStuck: boolean;
  /** No refresh before this time (milliseconds since 1970). */
  notBefore: number;
};

const pollIntervalMs = 100;
/** How seldom is looked where a worker says that there is nothing newer: it may be gone, or wrong. */
const confirmedPollIntervalMs = 1_000;
const longestPauseMs = 60_000;
const idleBeforeDetachMs = 15 * 60_000;
const reportAgainAfterMs = 60_000;

/**
 * Follows what the worker publishes: attaches a new generation, warms it,
 * switches to it, and detaches the old one when its last question is answered.
 * A generation that cannot be attached leaves the one before it serving.
 */
export function followGenerations(
  instance: DuckDBInstance,
  options: {
    readonly dataDirectory: string;
    /** Organizations that stay attached while nobody uses them; of more, those asked for last. */
    readonly maxIdle: number;
    readonly onError: (organizationId: bigint, error: unknown) => void;
  },
): Generations {
  /** In the order in which they were last asked for. */
  const organizations = new Map<bigint, Organization>();
  const upToDate = readUpToDate(options.dataDirectory);
  const attachments = createAttachments(instance, options.dataDirectory);
  const closing = new AbortController();
  let makingRoom: Promise<void> | null = null;

  const replace = async (organization: Organization, next: Attached | null) => {
    const old = organization.current;
    organization.current = next;
    if (old === null) return;
    await attachments.retire(old);
  };

  const evict = async (organization: Organization): Promise<void> => {
    organization.seen = null;
    await replace(organization, null);
  };

  const attachedNow = () => [...organizations.values()].filter(({ current }) => current !== null);

  /** Lets go of what nobody uses, of what was asked for the longest ago first. */
  const evictBeyond = async (most: number): Promise<void> => {
    for (const organization of attachedNow()) {
      if (attachedNow().length <= most) return;
      if (isNeeded(organization)) continue;
      await evict(organization).catch((error: unknown) => options.onError(organization.id, error));
    }
  };

  const withRoom = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (error) {
      if (!isOutOfMemory(error)) throw error;
      // Not all: what fits into no memory must not cost everybody else each time.
      makingRoom ??= evictBeyond(Math.floor(attachedNow().length / 2)).finally(() => {
        makingRoom = null;
      });
      await makingRoom;
      return work();
    }
  };

  const refresh = async (organization: Organization) => {
    organization.lookedAt = performance.now();
    const stamp = stampOf(currentFile(organization.directory));
    if (stamp === organization.seen) return;
    const published = stamp === null ? null : readPublished(organization.directory);
    if (published === null || published.layoutVersion !== layoutVersion) {
      organization.seen = stamp;
      organization.isStuck = published !== null;
      return;
    }
    // Whoever waits for the first one asks it himself.
    const warm = organization.current !== null;
    organization.attaching = published.file;
    const next = await withRoom(() => attachments.attach(organization.id, published, { warm }));
    organization.seen = stamp;
    organization.isStuck = false;
    if (!goesOn(organization, published)) organization.asOf = published.asOf;
    organization.served = published;
    organization.isConfirmed = false;
    await replace(organization, next);
    await evictBeyond(options.maxIdle);
  };

  /**
   * One refresh at a time; whoever comes meanwhile waits for the same one. What has
   * failed is tried again ever more seldom, and told of each time.
   */
  const refreshOnce = (organization: Organization): Promise<void> => {
    if (Date.now() < organization.notBefore) return Promise.resolve();
    organization.refreshing ??= refresh(organization)
      .then(() => {
        organization.failures = 0;
      })
      .catch((error) => {
        organization.failures += 1;
        organization.isStuck = true;
        const pause = Math.min(longestPauseMs, pollIntervalMs * 2 ** organization.failures);
        organization.notBefore = Date.now() + pause;
        options.onError(organization.id, error);
        const file = publishedFileName(organization.directory);
        // Another file than the one that failed may have taken its place meanwhile.
        if (isDamage(error) && file !== null && (file === '' || file === organization.attaching)) {
          noteDamage(organization, file);
        }
      })
      .finally(() => {
        organization.refreshing = null;
      });
    return organization.refreshing;
  };

  const noteDamage = (organization: Organization, file: string): void => {
    const { damaged } = organization;
    const now = performance.now();
    if (damaged?.file === file && now - damaged.toldAt < reportAgainAfterMs) return;
    organization.damaged = { file, toldAt: now };
    try {
      sendWorkerRequest(options.dataDirectory, 'damaged', organization.id, file);
    } catch (error) {
      options.onError(organization.id, error);
    }
  };

  /** Takes notice of what workers say of a generation. */
  const confirm = (organization: Organization, { published }: Attached): void => {
    const instant = upToDate.instantOf(organization.id, published.file);
    organization.isConfirmed = instant !== null;
    if (instant !== null && instant > organization.asOf) organization.asOf = instant;
  };

  /** To look at each of a thousand quiet organizations ten times a second keeps a process busy. */
  const isDue = ({ lookedAt, isConfirmed }: Organization): boolean =>
    !isConfirmed || performance.now() - lookedAt >= confirmedPollIntervalMs;

  const lookAfter = async (organization: Organization, current: Attached): Promise<void> => {
    confirm(organization, current);
    if (Date.now() - organization.lastUsed > idleBeforeDetachMs && !isNeeded(organization)) {
      await evict(organization);
    } else if (isDue(organization)) {
      await refreshOnce(organization);
    }
  };

  const follow = async () => {
    const { signal } = closing;
    while (!signal.aborted) {
      await sleep(pollIntervalMs, undefined, { ref: false, signal }).catch(() => {});
      // As they are now: whoever is asked for meanwhile is looked at the next time.
      for (const organization of [...organizations.values()]) {
        if (organization.current === null || signal.aborted) continue;
        // One's misfortune ends neither the process nor the following of others.
        await lookAfter(organization, organization.current).catch((error: unknown) =>
          options.onError(organization.id, error),
        );
      }
    }
  };
  const following = follow();

  return {
    async acquire(id, source) {
      const organization = organizations.get(id) ?? newOrganization(options.dataDirectory, id);
      organizations.delete(id);
      organizations.set(id, organization);
      organization.lastUsed = Date.now();
      if (organization.current === null) {
        organization.waiting += 1;
        await refreshOnce(organization).finally(() => {
          organization.waiting -= 1;
        });
      }
      const { current } = organization;
      if (current === null) return null;
      if (source !== null && current.published.source !== source) return null;
      if (current.published.file === organization.damaged?.file) {
        noteDamage(organization, current.published.file);
        return null;
      }
      confirm(organization, current);
      const release = attachments.use(current);
      return {
        generation: current.generation,
        asOf: organization.asOf,
        file: current.published.file,
        descriptor: current.descriptor,
        release() {
          release().catch((error) => options.onError(id, error));
        },
      };
    },

    async refresh(id) {
      const organization = organizations.get(id);
      if (organization !== undefined) await refreshOnce(organization);
    },

    reportDamage(id, file) {
      const organization = organizations.get(id);
      if (organization !== undefined) noteDamage(organization, file);
    },

    withRoom,

    async close() {
      closing.abort();
      await following;
      for (const organization of organizations.values()) {
        await organization.refreshing;
        await replace(organization, null);
      }
      await attachments.close();
    },
  };
}

function newOrganization(dataDirectory: string, id: bigint): Organization {
  return {
    id,
    directory: organizationDirectory(dataDirectory, id),
    current: null,
    served: null,
    asOf: 0n,
    isConfirmed: false,
    seen: null,
    lookedAt: 0,
    refreshing: null,
    waiting: 0,
    lastUsed: 0,
    failures: 0,
    attaching: null,
    damaged: null,
    isStuck: false,
    notBefore: 0,
  };
}

/**
 * Whether the generation shows everything up to the instant that the one before it does. Its
 * own instant may be earlier: it is the beginning of a transaction that took its snapshot
 * later, and meanwhile a look at the change log may have found nothing newer than the one
 * before. That holds as long as both have the same history, and this one is the later.
 */
function goesOn({ served, asOf }: Organization, published: PublishedGeneration): boolean {
  return (
    served !== null &&
    served.source === published.source &&
    served.fingerprint === published.fingerprint &&
    served.asOf <= published.asOf &&
    published.asOf < asOf
  );
}

function isNeeded({ current, waiting, refreshing, isStuck }: Organization): boolean {
  const isInUse = current !== null && current.users > 0;
  return isInUse || waiting > 0 || refreshing !== null || isStuck;
}
