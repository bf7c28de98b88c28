import { countChanges } from '../capture/change-log.ts';
import { streamChanges } from '../capture/changed-purchases.ts';
import { MissingChangesError, readSince } from '../capture/missing-changes.ts';
import { type Watermark, watermarkFor } from '../capture/watermark.ts';
import { follow, type Organization, requireLoad } from '../organization.ts';
import { TooManyBytesError } from './byte-limits.ts';
import { completeGaps } from './change-feed-gaps.ts';
import type { Prepared } from './store.ts';
import {
  leaveAfter,
  publishChanges,
  readChanges,
  selectOrganizations,
  type TickContext,
} from './tick-steps.ts';

/**
 * Publishes the changes of organizations that are behind and have the watermark `since`, so that they
 * follow again. No tick may run meanwhile, because the next tick reads all changes since the last one.
 */
export async function joinBehind(
  context: TickContext,
  behind: readonly Organization[],
  since: Watermark,
): Promise<void> {
  const { database, publication, store } = context;
  const joining = new Set<Organization>();
  for (const organization of behind) {
    try {
      await store.recover(organization.id, publication.tick);
      joining.add(organization);
    } catch (error) {
      leaveAfter(context, organization.id, error);
    }
  }
  const read = await readSince(database, since, async (connection) => {
    const counts = await countChanges(connection, since.snapshot);
    const included = selectOrganizations(context, counts, (each) => joining.has(each));
    return { counts, changes: await readChanges(connection, included, since.snapshot) };
  }).catch((error) => {
    if (error instanceof TooManyBytesError) {
      // The others join at the next call.
      leaveAfter(context, error.organizationId, error);
      return null;
    }
    if (!(error instanceof MissingChangesError)) throw error;
    for (const organization of joining) requireLoad(organization, error.reason);
    return null;
  });
  if (read === null) return;
  const { counts, changes } = read.result;
  await publishChanges(context, changes, publication.watermark, {
    joining: [...joining].filter(({ id }) => !counts.has(id) || changes.has(id)),
    joinedWatermark: read.watermark,
  });
}

/**
 * Publishes what a build has prepared for organizations, with the changes since its snapshot. The
 * organizations follow from now on. Returns the failures by organization. No tick may run meanwhile.
 */
export async function joinPrepared(
  context: TickContext,
  prepared: readonly Prepared[],
  since: Watermark,
): Promise<ReadonlyMap<bigint, unknown>> {
  const { organizations, publication } = context;
  const byOrganization = new Map(prepared.map((each) => [each.organizationId, each]));
  const watermark = await appendSince(context, byOrganization, since);
  const failures = new Map<bigint, unknown>();
  for (const [id, each] of byOrganization) {
    const organization = organizations.get(id);
    // The organization was deleted meanwhile, and another one may have its id.
    if (organization?.source !== each.source) continue;
    try {
      const own = watermarkFor(watermark, id);
      await each.publish(publication.tick, own);
      organization.differsFromPostgres = false;
      follow(organization, own);
    } catch (error) {
      failures.set(id, error);
    }
  }
  return failures;
}

/** Appends the changes since a snapshot, and returns the new watermark. Appending twice changes nothing. */
async function appendSince(
  context: TickContext,
  prepared: ReadonlyMap<bigint, Prepared>,
  since: Watermark,
): Promise<Watermark> {
  const withGaps = new Map(prepared);
  for (;;) {
    try {
      const { watermark } = await readSince(context.database, since, async (connection) => {
        const ids = [...prepared.keys()];
        for await (const [id, records] of streamChanges(connection, ids, since.snapshot)) {
          await prepared.get(id)?.append(records);
        }
        await completeGaps(context, connection, [...withGaps.values()]);
      });
      return watermark;
    } catch (error) {
      if (!(error instanceof TooManyBytesError)) throw error;
      // The change feed of this organization begins again.
      withGaps.delete(error.organizationId);
    }
  }
}
