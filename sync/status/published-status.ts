import { statSync } from 'node:fs';
import { join } from 'node:path';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { readLogEnd } from '../../src/purchase-store/format/log.ts';
import { readPublished } from '../../src/purchase-store/ticks/published.ts';
import {
  newestTick,
  readTicks,
  type Tick,
  type TickFile,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { databaseOf, type Watermark } from '../capture/watermark.ts';
import { changesIn } from '../files/log-files.ts';

type Published = Watermark & {
  /** The organization and its database. */
  readonly source: string;
  /** Purchases at the last load or compaction. */
  readonly purchases: number;
  /** Changes since the last load or compaction. */
  readonly changes: number;
  readonly bytes: number;
};

/** What is published of an organization; `damaged` if CURRENT or the files that it names cannot be read. */
export type PublishedStatus = Published | 'damaged';

export type PublishedStore = {
  /** The last ticks of all workers. */
  readonly ticks: readonly Tick[];
  /** Organizations of which something is published. */
  readonly organizations: ReadonlyMap<bigint, PublishedStatus>;
};

export type ReadPublished = (organizations: readonly bigint[]) => Promise<PublishedStore>;

export const readPublishedFiles =
  (dataDirectory: string): ReadPublished =>
  async (organizations) => {
    const published = new Map<bigint, PublishedStatus>();
    // Ticks are read before the logs, so that the logs have all batches of these ticks.
    const ticks = readTicks(dataDirectory);
    for (const id of organizations) {
      const directory = organizationDirectory(dataDirectory, id);
      const found = readUnchanged(directory, id, newestTick(ticks, id));
      if (found !== null) published.set(id, found);
    }
    return { ticks, organizations: published };
  };

/** The worker may replace CURRENT and remove the files that it named meanwhile. */
function readUnchanged(
  directory: string,
  id: bigint,
  tick: TickFile | null,
): PublishedStatus | null {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return readOne(directory, id, tick);
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      if (!isMissing || attempt === maxAttempts) return 'damaged';
    }
  }
}

const maxAttempts = 3;

/** Null if nothing is published. */
function readOne(directory: string, id: bigint, tick: TickFile | null): Published | null {
  const published = readPublished(
    id,
    () => tick,
    () => readCurrent(directory, layoutVersion),
  );
  if (published === null) return null;
  const { files: current, watermark } = published;
  const { source, fingerprint, purchases, base, log } = current;
  const end = readLogEnd(join(directory, log), published.tick, published.logEnd);
  const baseBytes = base === null ? 0 : statSync(join(directory, base)).size;
  return {
    ...watermark,
    source,
    fingerprint,
    database: databaseOf(source),
    purchases,
    changes: changesIn({ current, end }).changes,
    bytes: baseBytes + end.bytes,
  };
}
