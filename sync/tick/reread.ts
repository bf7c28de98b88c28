import { withSnapshot } from '../../src/postgres/pool.ts';
import { noRecords, type Records, streamChanges, streamReread } from '../capture/changes.ts';
import { confirmSnapshot } from '../capture/history-token.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import { notBefore } from './join.ts';
import { maxTickBytes, publishChanges, type TickContext } from './tick.ts';

/** The records take more than a tick may have. */
class OversizedRereadError extends Error {}

/**
 * Appends published purchases that differ from Postgres again, as Postgres has them now, and the changes
 * since the last tick. Resolves with false, without a change, if the organization does not follow, the
 * change log lacks changes, or the records are too many for a tick. No tick may run meanwhile.
 */
export async function reread(
  context: TickContext,
  organizationId: bigint,
  ids: readonly bigint[],
): Promise<boolean> {
  const { database, organizations, publication, maxTickChanges } = context;
  const organization = organizations.get(organizationId);
  if (organization?.phase !== 'following') return false;
  const { watermark: since } = publication;
  const read = await withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source);
    if ((await whyLogInsufficient(source, since, now)) !== null) return null;
    let all = noRecords;
    for await (const records of streamReread(source, organizationId, ids)) {
      all = concat(all, records, maxTickChanges);
    }
    for await (const [, records] of streamChanges(source, [organizationId], since.snapshot)) {
      all = concat(all, records, maxTickChanges);
    }
    return { now, all };
  }).catch((error) => {
    if (error instanceof OversizedRereadError) return null;
    throw error;
  });
  if (read === null) return false;
  const confirmed = await confirmSnapshot(database, read.now);
  await publishChanges(context, new Map([[organizationId, read.all]]), since, {
    joining: [organization],
    shown: notBefore(confirmed, organization.shown?.asOf ?? 0n, publication.asOf),
  });
  return organizations.get(organizationId)?.phase === 'following';
}

function concat(one: Records, other: Records, maxRecords: number): Records {
  const records = one.records + other.records;
  const bytes = one.lines.length + other.lines.length;
  if (records > maxRecords || bytes > maxTickBytes) throw new OversizedRereadError();
  return { lines: Buffer.concat([one.lines, other.lines]), records };
}
