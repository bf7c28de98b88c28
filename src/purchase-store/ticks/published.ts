import type { Current } from '../format/current.ts';
import type { Tick, TickFile, TickWatermark } from './published-tick.ts';

/**
 * What is published of an organization:
 *
 *   ticks/<shard>  ─▶ number, instants, ends of logs, organizations that the tick does not include
 *      │ read before
 *      ▼
 *   org_…/CURRENT  ─▶ base and log, source, watermark until a later tick includes the organization
 *      │ read before
 *      ▼
 *   org_…/log-*    ─▶ batches of ticks up to the published one, which end at `logEnd` or later
 *
 * In this order, CURRENT and the log have all that the tick has published.
 *
 * | what can be wrong                                  | then                                           |
 * |----------------------------------------------------|------------------------------------------------|
 * | no CURRENT, or of another layout                   | nothing is published: the worker loads it      |
 * | CURRENT is invalid                                 | it is damaged (`isInvalidCurrent`)             |
 * | `source` is not that of the request                | Postgres serves it                             |
 * | base or log are missing, and CURRENT is the same   | they are damaged                               |
 * | base or log are missing, and CURRENT is another    | the worker has replaced them: read again       |
 * | the log ends before `logEnd`, or checksums differ  | it is damaged (`DamagedLogError`)              |
 */
export type Published = {
  /** The content of CURRENT. */
  readonly files: Current;
  /** The published tick, whose batches and those before are visible; 0 without one. */
  readonly tick: number;
  /** The end of the visible batches in the log. A log that ends before has lost batches. */
  readonly logEnd: number;
  readonly watermark: TickWatermark;
  /** The instant that responses state. */
  readonly instant: bigint;
  /** The instant of the worker's last poll, which is later while a mapping or the organization is behind. */
  readonly polledAt: bigint;
  /** The source whose requests may read the files. */
  readonly source: string;
};

/** Null if nothing is published. */
export function readPublished(
  organizationId: bigint,
  readTick: () => TickFile | null,
  readFiles: () => Current | null,
): Published | null {
  const tick = readTick();
  const files = readFiles();
  return files && publishedOf(organizationId, files, tick);
}

/** What CURRENT and a tick that was read before publish. */
export function publishedOf(
  organizationId: bigint,
  files: Current,
  tick: TickFile | null,
): Published {
  const watermark = organizationWatermark(organizationId, files, tick);
  return {
    files,
    tick: tick?.tick ?? 0,
    logEnd: publishedLogEnd(organizationId, files, tick),
    watermark,
    instant: watermark.asOf,
    polledAt: tick?.polledAt ?? tick?.asOf ?? watermark.asOf,
    source: servedSourceOf(files),
  };
}

/**
 * The source whose requests may read the files of an organization (`servedSource` in
 * postgres/connection/source-identity.ts). A fingerprint begins with the timeline of the snapshot.
 */
export const servedSourceOf = ({
  source,
  fingerprint,
}: Pick<Current, 'source' | 'fingerprint'>): string => `${fingerprint.split(' ', 1)[0]} ${source}`;

/** The end of the visible batches in the log of CURRENT. */
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
  published: Tick | null,
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
