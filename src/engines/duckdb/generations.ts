import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBInstance } from '@duckdb/node-api';
import { isSameDatabase } from '../../postgres/system-identifier.ts';
import { attachGeneration } from './attach-generation.ts';
import type { Generation } from './labels.ts';
import { layoutVersion } from './layout.ts';
import {
  currentFile,
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
  stampOf,
} from './published-generation.ts';
import { readUpToDate } from './up-to-date.ts';

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
  /** The newest published generation of an organization; null where there is none. */
  acquire(organizationId: bigint): Promise<GenerationLease | null>;
  /** Switches to what was published a moment ago, rather than at the next look around. */
  refresh(organizationId: bigint): Promise<void>;
  close(): Promise<void>;
};

type Attached = {
  readonly generation: Generation;
  readonly published: PublishedGeneration;
  readonly descriptor: number;
  /** Never set back: what was known once holds. */
  asOf: bigint;
  /** Whether a worker goes on saying that nothing newer is to come. */
  isConfirmed: boolean;
  users: number;
  retired: boolean;
};

type Organization = {
  readonly id: bigint;
  readonly directory: string;
  current: Attached | null;
  /** Identifies the CURRENT file that was last looked at. */
  seen: string | null;
  /** When that was, by this process's clock. */
  lookedAt: number;
  refreshing: Promise<void> | null;
  lastUsed: number;
  failures: number;
  /** No refresh before this time (milliseconds since 1970). */
  notBefore: number;
};

const pollIntervalMs = 100;
/** How seldom is looked where a worker says that there is nothing newer: it may be gone, or wrong. */
const confirmedPollIntervalMs = 1_000;
const longestPauseMs = 60_000;
const idleBeforeDetachMs = 15 * 60_000;

/**
 * Follows what the worker publishes: attaches a new generation, warms it,
 * switches to it, and detaches the old one when its last question is answered.
 * A generation that cannot be attached leaves the one before it serving.
 */
export function followGenerations(
  instance: DuckDBInstance,
  options: {
    readonly dataDirectory: string;
    /** The database that answers must come from; files of another one are not served. */
    readonly systemIdentifier: string;
    readonly onError: (organizationId: bigint, error: unknown) => void;
    /** A generation has taken another one's place. */
    readonly onReplaced: (organizationId: bigint) => void;
  },
): Generations {
  const organizations = new Map<bigint, Organization>();
  const upToDate = readUpToDate(options.dataDirectory);
  const connection = instance.connect();
  let attachments = 0;
  const closing = new AbortController();

  const release = async (attached: Attached) => {
    if (attached.retired && attached.users === 0) {
      await (await connection).run(`detach ${attached.generation.catalog}`);
      closeSync(attached.descriptor);
    }
  };

  const replace = async (organization: Organization, next: Attached | null) => {
    const old = organization.current;
    organization.current = next;
    if (old === null) return;
    old.retired = true;
    if (next !== null) options.onReplaced(organization.id);
    await release(old);
  };

  const refresh = async (organization: Organization) => {
    organization.lookedAt = performance.now();
    const stamp = stampOf(currentFile(organization.directory));
    if (stamp === organization.seen) return;
    const published = stamp === null ? null : readPublished(organization.directory);
    if (published === null || !isServable(published, options.systemIdentifier)) {
      organization.seen = stamp;
      return;
    }
    attachments += 1;
    const catalog = `generation_${attachments}`;
    const path = join(organization.directory, published.file);
    const descriptor = openSync(path, 'r');
    const generation = await attachGeneration(
      await connection,
      catalog,
      path,
      organization.id,
    ).catch((error: unknown) => {
      closeSync(descriptor);
      throw error;
    });
    organization.seen = stamp;
    await replace(organization, {
      generation,
      published,
      descriptor,
      asOf: published.asOf,
      isConfirmed: false,
      users: 0,
      retired: false,
    });
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
        const pause = Math.min(longestPauseMs, pollIntervalMs * 2 ** organization.failures);
        organization.notBefore = Date.now() + pause;
        options.onError(organization.id, error);
      })
      .finally(() => {
        organization.refreshing = null;
      });
    return organization.refreshing;
  };

  /** Takes notice of what workers say of a generation. */
  const confirm = ({ id }: Organization, attached: Attached): void => {
    const instant = upToDate.instantOf(id, attached.published.file);
    attached.isConfirmed = instant !== null;
    if (instant !== null && instant > attached.asOf) attached.asOf = instant;
  };

  /** To look at each of a thousand quiet organizations ten times a second keeps a process busy. */
  const isDue = ({ lookedAt }: Organization, { isConfirmed }: Attached): boolean =>
    !isConfirmed || performance.now() - lookedAt >= confirmedPollIntervalMs;

  const lookAfter = async (organization: Organization, current: Attached): Promise<void> => {
    confirm(organization, current);
    if (Date.now() - organization.lastUsed > idleBeforeDetachMs) {
      organizations.delete(organization.id);
      await replace(organization, null);
    } else if (isDue(organization, current)) {
      await refreshOnce(organization);
    }
  };

  const follow = async () => {
    const { signal } = closing;
    while (!signal.aborted) {
      await sleep(pollIntervalMs, undefined, { ref: false, signal }).catch(() => {});
      for (const organization of organizations.values()) {
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
    async acquire(id) {
      let organization = organizations.get(id);
      if (organization === undefined) {
        const directory = organizationDirectory(options.dataDirectory, id);
        organization = {
          id,
          directory,
          current: null,
          seen: null,
          lookedAt: 0,
          refreshing: null,
          lastUsed: 0,
          failures: 0,
          notBefore: 0,
        };
        organizations.set(id, organization);
      }
      organization.lastUsed = Date.now();
      if (organization.current === null) await refreshOnce(organization);
      const attached = organization.current;
      if (attached === null) return null;
      attached.users += 1;
      confirm(organization, attached);
      return {
        generation: attached.generation,
        asOf: attached.asOf,
        file: attached.published.file,
        descriptor: attached.descriptor,
        release() {
          attached.users -= 1;
          release(attached).catch((error) => options.onError(id, error));
        },
      };
    },

    async refresh(id) {
      const organization = organizations.get(id);
      if (organization !== undefined) await refreshOnce(organization);
    },

    async close() {
      closing.abort();
      await following;
      for (const organization of organizations.values()) {
        await organization.refreshing;
        await replace(organization, null);
      }
      (await connection).closeSync();
    },
  };
}

function isServable(published: PublishedGeneration, systemIdentifier: string): boolean {
  return (
    published.layoutVersion === layoutVersion &&
    isSameDatabase(published.systemIdentifier, systemIdentifier)
  );
}
