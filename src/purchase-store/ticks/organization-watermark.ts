import type { Current } from '../format/current.ts';
import type { TickFile, TickWatermark } from './published-tick.ts';

/**
 * The source whose requests may read the files of an organization (`servedSource` in
 * postgres/connection/source-identity.ts). A fingerprint begins with the timeline of the snapshot.
 */
export const servedSourceOf = ({
  source,
  fingerprint,
}: Pick<Current, 'source' | 'fingerprint'>): string => `${fingerprint.split(' ', 1)[0]} ${source}`;

/**
 * The watermark of an organization:
 *
 * | condition                                                                     | watermark        |
 * |-------------------------------------------------------------------------------|------------------|
 * | the tick is later than CURRENT, and has an exception with an instant          | of the exception |
 * | the tick is later, has the same database and fingerprint, and no exception    | of the tick      |
 * | otherwise                                                                     | of CURRENT       |
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
