import { streamChanges, streamReread } from '../capture/changes.ts';
import { InsufficientLogError, readSince } from '../capture/log-sufficiency.ts';
import { noRecords, type Records } from '../capture/records.ts';
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
  const read = await readSince(database, since, async (source) => {
    let all = noRecords;
    for await (const records of streamReread(source, organizationId, ids)) {
      all = concat(all, records, maxTickChanges);
    }
    for await (const [, records] of streamChanges(source, [organizationId], since.snapshot)) {
      all = concat(all, records, maxTickChanges);
    }
    return all;
  }).catch((error) => {
    if (error instanceof OversizedRereadError || error instanceof InsufficientLogError) return null;
    throw error;
  });
  if (read === null) return false;
  await publishChanges(context, new Map([[organizationId, read.result]]), since, {
    joining: [organization],
    shown: read.watermark,
  });
  return organizations.get(organizationId)?.phase === 'following';
}

function concat(one: Records, other: Records, maxRecords: number): Records {
  const records = one.records + other.records;
  const bytes = one.lines.length + other.lines.length;
  if (records > maxRecords || bytes > maxTickBytes) throw new OversizedRereadError();
  return { lines: Buffer.concat([one.lines, other.lines]), records };
}
