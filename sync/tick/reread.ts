import type { Connection } from '../../src/postgres/pool.ts';
import { streamChanges, streamReread } from '../capture/changes.ts';
import { InsufficientLogError, readSince } from '../capture/log-sufficiency.ts';
import { TooManyBytesError } from './byte-limits.ts';
import { collect, publishChanges, type TickContext } from './tick.ts';

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
  const parts = async function* (source: Connection) {
    yield* streamReread(source, organizationId, ids);
    yield* streamChanges(source, [organizationId], since.snapshot);
  };
  const read = await readSince(database, since, async (source) =>
    (await collect(parts(source))).get(organizationId),
  ).catch((error) => {
    if (error instanceof InsufficientLogError || error instanceof TooManyBytesError) return null;
    throw error;
  });
  const records = read?.result;
  if (read === null || records === undefined || records.records > maxTickChanges) return false;
  await publishChanges(context, new Map([[organizationId, records]]), since, {
    joining: [organization],
    shown: read.watermark,
  });
  return organizations.get(organizationId)?.phase === 'following';
}
