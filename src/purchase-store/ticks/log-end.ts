import type { Current } from '../format/current.ts';
import type { TickFile } from './published-tick.ts';

/**
 * The end of the batches of ticks up to the published one, in the log of an organization. Read the tick
 * before CURRENT. A log that ends before has lost batches, even if it ends with a whole one.
 */
export function publishedLogEnd(
  organizationId: bigint,
  current: Pick<Current, 'tick' | 'logBytes'>,
  published: TickFile | null,
): number {
  // The tick may state the end of a log that CURRENT has replaced.
  if (published === null || published.tick <= current.tick) return current.logBytes;
  const id = String(organizationId);
  return published.logEnds[id] ?? published.synced.logEnds[id] ?? current.logBytes;
}
