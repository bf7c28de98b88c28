import type { Connection } from '../../src/postgres/connection/pool.ts';
import { countChanges } from '../capture/change-log.ts';
import { streamChanges } from '../capture/changed-purchases.ts';
import { MissingChangesError, readSince, whyMissingIn } from '../capture/missing-changes.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import { type Watermark, watermarkFor } from '../capture/watermark.ts';
import { follow, type Organization, requireLoad } from '../organization.ts';
import { maxTickBytesOfOne, TooManyBytesError } from './byte-limits.ts';
import type { ChangeGap, Prepared } from './store.ts';
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

/**
 * Completes the gaps with the changes up to the snapshot of `source`. A gap stays incomplete if the change
 * log lacks changes, if they are more than a tick may have, or if what is published differs from Postgres.
 * Rejects with TooManyBytesError if the changes of a gap have too much text.
 */
export async function completeGaps(
  context: TickContext,
  connection: Connection,
  prepared: readonly Prepared[],
): Promise<void> {
  const groups = groupsBySnapshot(context, prepared);
  if (groups.length === 0) return;
  const now = await takeSnapshot(connection);
  for (const { since, gaps } of groups) {
    if ((await whyMissingIn(connection, since, now)) !== null) continue;
    const counts = await countChanges(connection, since.snapshot);
    for (const [id, { until }] of gaps) {
      // If `until` is set, the build has bounded its gap already.
      const isTooLarge = until === null && (counts.get(id) ?? 0) > context.maxTickChanges;
      if (isTooLarge) gaps.delete(id);
    }
    const bytes = new Map<bigint, number>();
    for await (const [id, records] of streamChanges(connection, [...gaps.keys()], since.snapshot)) {
      bytes.set(id, (bytes.get(id) ?? 0) + records.lines.length);
      if ((bytes.get(id) ?? 0) > maxTickBytesOfOne) throw new TooManyBytesError(id);
      gaps.get(id)?.append(records);
    }
    for (const gap of gaps.values()) gap.isComplete = true;
  }
}

function groupsBySnapshot(
  { organizations, publication }: TickContext,
  prepared: readonly Prepared[],
) {
  const groups = new Map<string, { since: Watermark; gaps: Map<bigint, ChangeGap> }>();
  for (const { organizationId: id, gap } of prepared) {
    const organization = organizations.get(id);
    if (organization === undefined || organization.differsFromPostgres) continue;
    const since = gap.until ?? watermarkOf(organization, publication.watermark);
    if (since === null) continue;
    const group = groups.get(since.snapshot) ?? { since, gaps: new Map() };
    group.gaps.set(id, gap);
    groups.set(since.snapshot, group);
  }
  return [...groups.values()];
}

/** The watermark of an organization; null if nothing is published. */
const watermarkOf = ({ phase, watermark }: Organization, published: Watermark): Watermark | null =>
  watermark ?? (phase === 'following' ? published : null);
