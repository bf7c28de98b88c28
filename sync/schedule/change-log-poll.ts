import type { Database } from '../../src/postgres/pool.ts';
import {
  currentSnapshot,
  type PollResult,
  readChangeLog,
  removeForeignEntries,
} from '../capture/change-log.ts';
import type { OrganizationSchedulers } from './organization-schedulers.ts';

/** Reads the change log from where the last poll ended, and marks the organizations that changed. */
type ChangeLogPoll = {
  /** Rejects if Postgres does not respond. */
  poll(refreshOrganizations: () => Promise<void>): Promise<PollResult>;
  /** The next poll takes every organization for changed: Postgres may be another server, or restored. */
  reset(): void;
};

export function createChangeLogPoll(
  database: Database,
  schedulers: OrganizationSchedulers,
): ChangeLogPoll {
  let last: PollResult | null = null;

  /** A TRUNCATE of the change log, or a restore, removes these tokens too. */
  const publishedTokens = (): string[] =>
    [...schedulers.all.values()].flatMap(
      (scheduler) => scheduler.upToDateGeneration()?.token ?? [],
    );

  const first = async (): Promise<PollResult> => {
    // Each organization's next run finds the changes before the first poll.
    await removeForeignEntries(database);
    const snapshot = await currentSnapshot(database);
    const result = await readChangeLog(database, snapshot, publishedTokens());
    // A run that began before this poll may have seen less than later polls compare with.
    for (const scheduler of schedulers.all.values()) scheduler.markChanged();
    return result;
  };

  const next = async ({ snapshot, source }: PollResult): Promise<PollResult> => {
    const result = await readChangeLog(database, snapshot, publishedTokens());
    // Another source may have changes that are not in this log.
    return result.source === source ? result : first();
  };

  return {
    async poll(refreshOrganizations) {
      const result = await (last === null ? first() : next(last));
      await refreshOrganizations();
      for (const [id, scheduler] of schedulers.all) {
        const token = scheduler.replicator.publishedGeneration()?.token ?? '';
        if (result.organizations.includes(id) || result.lostTokens.has(token)) {
          scheduler.markChanged();
        }
      }
      last = result;
      return result;
    },
    reset() {
      last = null;
    },
  };
}
