import type { Connection } from '../../src/postgres/connection/pool.ts';
import { countChanges } from '../capture/change-log.ts';
import { streamChanges } from '../capture/changed-purchases.ts';
import { whyMissingIn } from '../capture/missing-changes.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import type { Watermark } from '../capture/watermark.ts';
import type { Organization } from '../organization.ts';
import { maxTickBytesOfOne, TooManyBytesError } from './byte-limits.ts';
import type { ChangeGap, Prepared } from './store.ts';
import type { TickContext } from './tick-steps.ts';

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
