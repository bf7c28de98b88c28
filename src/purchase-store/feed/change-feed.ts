import { LRUCache } from 'lru-cache';
import {
  type ChangeFeed,
  type ChangesPage,
  type ChangesQuery,
  NoChangeFeedError,
  readOrWait,
  UnknownFeedPositionError,
} from '../../domain/purchase-changes.ts';
import { createWaitUntilFresh } from '../../domain/wait-until-fresh.ts';
import { DamagedFiles } from '../damage/damaged-files.ts';
import {
  type Current,
  currentFile,
  isInvalidCurrent,
  organizationDirectory,
  readCurrent,
  stampOf,
} from '../format/current.ts';
import { layoutVersion } from '../format/layout.ts';
import { DamagedLogError } from '../format/log.ts';
import { publishedOf } from '../ticks/published.ts';
import type { TickReader } from '../ticks/published-tick.ts';
import { createChangeWatcher, type Wanted } from './change-watcher.ts';
import { beginOfLog, findEnd, readFeedPage } from './feed-page.ts';
import { decodePosition, encodePosition, type FeedPosition } from './feed-position.ts';

/** Organizations whose CURRENT, damaged files and end of published batches are cached. */
const maxOrganizations = 10_000;

type StampedCurrent = { readonly stamp: string; readonly current: Current };

type FeedOptions = {
  readonly dataDirectory: string;
  readonly ticks: TickReader;
  /** Receives the errors of damaged files, which are also reported to the worker. */
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

/** The change feed of the logs in a data folder. It opens no DuckDB file. */
export function createChangeFeed({ dataDirectory, ticks, onError }: FeedOptions): ChangeFeed {
  const watcher = createChangeWatcher(dataDirectory, ticks);
  const currents = new LRUCache<bigint, StampedCurrent>({ max: maxOrganizations });
  const damaged = new LRUCache<bigint, DamagedFiles>({
    max: maxOrganizations,
    memoMethod: (id) => new DamagedFiles(dataDirectory, id, onError),
  });
  const ends = new LRUCache<string, FeedPosition>({ max: maxOrganizations });

  const readOrReport = (organizationId: bigint, directory: string): Current | null => {
    try {
      return readCurrent(directory, layoutVersion);
    } catch (error) {
      if (!isInvalidCurrent(error)) throw error;
      damaged.memo(organizationId).report('CURRENT', error);
      return null;
    }
  };

  const currentOf = (organizationId: bigint): StampedCurrent | null => {
    const directory = organizationDirectory(dataDirectory, organizationId);
    const stamp = stampOf(currentFile(directory));
    const known = currents.get(organizationId);
    if (known?.stamp === stamp) return known ?? null;
    const current = stamp === null ? null : readOrReport(organizationId, directory);
    if (stamp === null || current === null) return null;
    const read = { stamp, current };
    currents.set(organizationId, read);
    return read;
  };

  const view = (organizationId: bigint, source: string | null) => {
    const tick = ticks.of(organizationId);
    const found = currentOf(organizationId);
    if (found === null) throw new NoChangeFeedError();
    const published = publishedOf(organizationId, found.current, tick);
    if (published.source !== source) throw new NoChangeFeedError();
    return { stamp: found.stamp, published };
  };

  const readOnce = (
    organizationId: bigint,
    source: string,
    { after, limit }: ChangesQuery,
  ): { readonly page: ChangesPage; readonly wanted: Wanted } => {
    const position = after === null ? null : decodePosition(after);
    const directory = organizationDirectory(dataDirectory, organizationId);
    for (;;) {
      const { stamp, published } = view(organizationId, source);
      const { files, instant: asOf } = published;
      try {
        if (position !== null) {
          const range = { after: position, limit };
          const { next, ...changes } = readFeedPage(directory, published, range);
          const page = { ...changes, next: encodePosition(next), asOf };
          return { page, wanted: { organizationId, stamp, log: files.log, end: next.batch } };
        }
        const from = ends.get(files.log) ?? beginOfLog(files);
        const next = findEnd(directory, published, from);
        ends.set(files.log, next);
        const page = { changes: [], hasMore: false, next: encodePosition(next), asOf };
        return { page, wanted: { organizationId, stamp, log: files.log, end: next.batch } };
      } catch (error) {
        if (error instanceof UnknownFeedPositionError) throw error;
        // The worker has replaced the log meanwhile.
        if (currentOf(organizationId)?.stamp !== stamp) continue;
        if (!(error instanceof DamagedLogError)) throw error;
        const known = damaged.memo(organizationId);
        if (!known.includes(files)) known.add(files, error);
        throw after === null ? new NoChangeFeedError() : new UnknownFeedPositionError();
      }
    }
  };

  return {
    read: (organizationId, source, query, waiting = {}) =>
      readOrWait(watcher, query, waiting, async () => readOnce(organizationId, source, query)),

    freshness: async (organizationId, source) => view(organizationId, source).published.instant,

    waitUntilFresh: createWaitUntilFresh(async (id, source) => view(id, source).published.instant),

    close: () => watcher.close(),
  };
}
