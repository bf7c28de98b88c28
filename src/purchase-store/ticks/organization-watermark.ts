import type { Current } from '../format/current.ts';
import type { TickFile, TickWatermark } from './published-tick.ts';

/**
 * The source whose requests may read what an organization shows (`servedSource` in
 * postgres/source-identity.ts). A fingerprint begins with the timeline of the snapshot.
 */
export const servedSourceOf = ({
  source,
  fingerprint,
}: Pick<Current, 'source' | 'fingerprint'>): string => `${fingerprint.split(' ', 1)[0]} ${source}`;

/**
 * What an organization shows: the published tick, if it is of the same history of the same database,
 * the organization was written before it and is no exception of it; otherwise what the exception or
 * CURRENT says, whichever was written later.
 */
export function organizationWatermark(
  organizationId: bigint,
  current: Pick<Current, 'tick' | 'source' | 'fingerprint' | keyof TickWatermark>,
  published: TickFile | null,
): TickWatermark {
  const exception = published?.exceptions[String(organizationId)];
  const isLater = published !== null && published.tick > current.tick;
  const isInTick =
    isLater &&
    published.fingerprint === current.fingerprint &&
    current.source.startsWith(`${published.database}/`);
  const { asOf, snapshot, token } =
    exception !== undefined && exception.asOf > 0n && isLater
      ? exception
      : isInTick && exception === undefined
        ? published
        : current;
  return { asOf, snapshot, token };
}
