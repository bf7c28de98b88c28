import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type PQueue from 'p-queue';
import {
  type DataVersion,
  NoGenerationError,
  type StoreFiles,
  type Versioned,
} from '../../../domain/purchase-engine.ts';
import { isCorruption, isDamage } from '../../../duckdb/damage.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { DamagedFiles } from '../../../purchase-store/damage/damaged-files.ts';
import type { ChangedPurchase } from '../../../purchase-store/delta/decode-records.ts';
import {
  currentFile,
  isInvalidCurrent,
  organizationDirectory,
  readCurrent,
  stampOf,
} from '../../../purchase-store/format/current.ts';
import { layoutVersion } from '../../../purchase-store/format/layout.ts';
import { type Bases, openStore, type PendingBatches } from '../../../purchase-store/open-store.ts';
import { publishedOf } from '../../../purchase-store/ticks/published.ts';
import type { TickFile, TickReader } from '../../../purchase-store/ticks/published-tick.ts';
import type { ServedInstants } from '../../served-instants.ts';
import type { CachedLists, ListCache } from '../list/list-cache.ts';
import { createFollower, type Follower } from './follower.ts';
import { createGeneration, type Generation } from './generation.ts';
import { later, type TickInstant, tickInstantOf } from './tick-instant.ts';
import {
  commit,
  rollback,
  type SharedBase,
  type Version,
  VersionedStore,
} from './versioned-store.ts';

/** The data that one query reads: all its statements see the same version. */
export type Lease = {
  readonly generation: Generation;
  readonly files: StoreFiles;
  readonly version: DataVersion;
  readonly lists: CachedLists;
  /** Keeps the files open after the query, until the returned function is called. */
  hold(): () => Promise<void>;
  /** Stops serving the files if an error of a reader that holds them shows damage. */
  reportDamage(error: unknown): void;
};

export type UseOptions = {
  /** Whether pending changes affect the result. Without it, `work` waits until they are applied. */
  readonly isAffectedBy?: (changed: readonly ChangedPurchase[]) => boolean;
  /** Whether `work` reads the base alone, which never changes: it then needs no transaction. */
  readonly readsBaseAlone?: (generation: Generation) => boolean;
};

type ServedOrganizationOptions = {
  readonly dataDirectory: string;
  readonly instance: DuckDBInstance;
  readonly bases: Bases<SharedBase>;
  readonly ticks: TickReader;
  readonly lists: ListCache;
  readonly shortcuts: Shortcuts;
  /** Opens one organization at a time: each occupies a thread of libuv's pool. */
  readonly opening: PQueue;
  /** Runs `work`, and once more after an eviction if memory or descriptors run out. */
  readonly withEviction: <Result>(work: () => Promise<Result>) => Promise<Result>;
  readonly onOpened: () => Promise<void>;
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

/**
 * Why queries of an organization do not read its files. The promotion of a standby also leads to
 * `other_database`.
 */
export const unavailabilities = ['not_loaded', 'damaged', 'unreadable', 'other_database'] as const;
export type Unavailability = (typeof unavailabilities)[number];

/** An open store, and its pending batches up to a published tick. */
type Found = {
  readonly opened: VersionedStore;
  readonly tick: TickFile | null;
  readonly pending: PendingBatches | null;
  /** The part of the log that the tick shows, and its instant. */
  readonly end: number;
  readonly instant: TickInstant;
};

/** The name of the data of an open store up to a position of its log. */
const nameOf = ({ store: { current } }: VersionedStore, position: number): string =>
  `${current.base} ${current.log} ${position}`;

/** False also if the pending changes cannot be read: applying them reports why. */
function isUnaffected(
  { opened: { store }, pending }: Found,
  isAffectedBy: NonNullable<UseOptions['isAffectedBy']>,
  { maxSearchedChangesBytes }: Shortcuts,
): boolean {
  if (pending === null) return true;
  try {
    const { position } = store.part();
    const changed = store.changesBetween(position, pending.end, maxSearchedChangesBytes);
    return changed !== null && !isAffectedBy(changed);
  } catch {
    return false;
  }
}

const minRetryDelayMs = 200;
const maxRetryDelayMs = 60_000;

let openedStores = 0;

/**
 * Serves one organization: opens its files at the first query, and applies the batches that the
 * worker has published since the last one.
 */
export class ServedOrganization {
  readonly id: bigint;
  readonly #options: ServedOrganizationOptions;
  readonly #directory: string;
  #opened: VersionedStore | null = null;
  #opening: Promise<void> | null = null;
  readonly #damaged: DamagedFiles;
  readonly #follower: Follower;
  #failures = 0;
  /** Not opened again before this time (monotonic milliseconds), unless CURRENT is another file. */
  #retryAt = 0;
  #failedStamp: string | null = null;
  #unavailability: Unavailability = 'not_loaded';
  #isServing = false;
  lastUsedAt = performance.now();

  /** `previous` served the organization in another instance: its files may be damaged. */
  constructor(id: bigint, options: ServedOrganizationOptions, previous?: ServedOrganization) {
    this.id = id;
    this.#options = options;
    this.#directory = organizationDirectory(options.dataDirectory, id);
    const { dataDirectory, onError, shortcuts } = options;
    this.#follower = createFollower(shortcuts.maxPauseMs, () => this.#applyPublished());
    this.#damaged =
      previous === undefined ? new DamagedFiles(dataDirectory, id, onError) : previous.#damaged;
  }

  get isOpen(): boolean {
    return this.#opened !== null;
  }

  /** The instants of a response now; null if queries do not read files. */
  get servedInstants(): ServedInstants | null {
    const opened = this.#opened;
    // Without CURRENT, the files have been removed with their organization.
    if (!this.#isServing || opened === null || stampOf(this.#currentFile) === null) return null;
    const tick = this.#options.ticks.of(this.id);
    const { instant, polledAt } = publishedOf(this.id, opened.store.current, tick);
    return { asOf: instant, tickAsOf: polledAt };
  }

  get unavailability(): Unavailability {
    return this.#unavailability;
  }

  get isEvictable(): boolean {
    return this.#opened?.isInUse !== true && this.#opening === null;
  }

  /** About the bytes that the open store takes. */
  get weight(): number {
    return this.#opened?.weight ?? 0;
  }

  /** The version that a query would read; null if no readable files are from `source`. */
  async version(source: string | null): Promise<DataVersion | null> {
    const found = await this.#find(source);
    return found && { name: nameOf(found.opened, found.end), asOf: found.instant.asOf };
  }

  /**
   * Returns what `read` finds in the cached lists of the newest version; null if it finds nothing, or if no
   * readable files are from `source`. The delta need not have the newest changes.
   */
  async cached<Result>(
    source: string | null,
    read: (lists: CachedLists) => Result | null,
  ): Promise<Versioned<Result> | null> {
    const found = await this.#find(source);
    if (found === null || found.opened !== this.#opened) return null;
    try {
      const { opened, end, instant } = found;
      const result = read(this.#listsOf(opened, end));
      if (result === null) return null;
      this.#applyMany(found);
      return { result, asOf: instant.asOf, version: nameOf(opened, end) };
    } catch {
      // The changes cannot be read. The query that reads the delta reports the damage.
      return null;
    }
  }

  #listsOf({ store }: VersionedStore, position: number): CachedLists {
    const { lists, shortcuts } = this.#options;
    return lists.of({
      catalog: store.catalogs.delta,
      position,
      changesBetween: (from, to) => store.changesBetween(from, to, shortcuts.maxListChangesBytes),
    });
  }

  /**
   * Runs `work` on `connection`, in a transaction. It sees one version. Null if no readable
   * files are from `source`; a null `source` accepts all files.
   */
  async use<Result>(
    source: string | null,
    connection: DuckDBConnection,
    work: (lease: Lease) => Promise<Result>,
    { isAffectedBy, readsBaseAlone = () => false }: UseOptions = {},
  ): Promise<{ readonly result: Result } | null> {
    let found = await this.#findApplied(source, isAffectedBy);
    // An eviction may have closed the files before they are held.
    while (found !== null && found.opened !== this.#opened) {
      found = await this.#findApplied(source, isAffectedBy);
    }
    if (found === null) return null;
    const { opened, end } = found;
    const hold = () => this.#hold(opened);
    const reportDamage = (error: unknown) => {
      if (isCorruption(error)) this.#damaged.add(opened.store.current, error);
    };
    const runWith = (seen: Version) => {
      const { position } = seen.part;
      // Batches that do not affect the query may be pending.
      const name = nameOf(opened, Math.max(position, end));
      const version = { name, asOf: seen.instant.asOf };
      const [files, lists] = [opened.filesOf(seen), this.#listsOf(opened, position)];
      return work({ generation: seen.generation, version, files, lists, hold, reportDamage });
    };
    const release = hold();
    try {
      const present = await opened.present(found.instant);
      if (readsBaseAlone(present.generation)) return { result: await runWith(present) };
      const result = await runWith(await opened.begin(connection, found.instant));
      await commit(connection);
      this.#follower.onQuery();
      return { result };
    } catch (error) {
      await rollback(connection);
      reportDamage(error);
      throw error;
    } finally {
      await release();
    }
  }

  #hold(opened: VersionedStore): () => Promise<void> {
    const release = opened.hold();
    return () => release().catch((error) => this.#options.onError(this.id, error));
  }

  async evict(): Promise<void> {
    await this.#replace(null);
  }

  async close(): Promise<void> {
    this.#follower.stop();
    await this.#opening;
    await this.#opened?.waitForChange();
    await this.#replace(null);
  }

  get #currentFile(): string {
    return currentFile(this.#directory);
  }

  /** Applies what a tick has published since. The next query reports a failure. */
  async #applyPublished(): Promise<void> {
    const opened = this.#opened;
    if (opened === null) return;
    try {
      const { store } = opened;
      const { logEnd } = publishedOf(this.id, store.current, this.#options.ticks.of(this.id));
      if (logEnd > store.part().position) await this.#findApplied(null, undefined);
    } catch {}
  }

  /** Applies many pending changes. The next query that needs them reports a failure. */
  #applyMany(found: Found): void {
    const { maxPendingRecords } = this.#options.shortcuts;
    if (found.pending === null || found.pending.records <= maxPendingRecords) return;
    void this.#change(found.opened, () => this.#apply(found)).catch(() => {});
  }

  /**
   * Applies the batches that are pending now, but not those of later ticks: if ticks came faster than
   * batches can be applied, a query would never begin. Does not wait for batches that do not affect it.
   */
  async #findApplied(
    source: string | null,
    isAffectedBy: UseOptions['isAffectedBy'],
  ): Promise<Found | null> {
    for (;;) {
      const found = await this.#find(source);
      if (found === null || found.pending === null) return found;
      if (isAffectedBy && isUnaffected(found, isAffectedBy, this.#options.shortcuts)) {
        this.#applyMany(found);
        return found;
      }
      const { opened, pending } = found;
      while (this.#opened === opened && opened.store.part().position < pending.end) {
        await this.#change(opened, () => this.#apply(found));
      }
      if (this.#opened === opened) return found;
    }
  }

  /**
   * Applies the batches that are still pending, with the instant of their tick. Later ticks may be of a log that
   * has replaced the one of `opened`.
   */
  async #apply({ opened, tick, instant }: Found): Promise<void> {
    const pending = opened.store.findPending(tick?.tick ?? 0);
    if (pending !== null) await opened.apply(pending, instant);
  }

  /** Changes the delta. After a failure, the store cannot be used again. */
  async #change(opened: VersionedStore, change: () => Promise<void>): Promise<void> {
    try {
      await opened.changeOnce(change);
    } catch (error) {
      // The store is closed outside the change, because closing waits for the change.
      if (this.#opened === opened) {
        if (isDamage(error)) this.#damaged.add(opened.store.current, error);
        await this.#replace(null);
      }
      if (isDamage(error)) throw new NoGenerationError('the files are damaged', { cause: error });
      throw error;
    }
  }

  /** Opens the files that CURRENT names, and finds their pending batches. */
  async #find(source: string | null): Promise<Found | null> {
    this.lastUsedAt = performance.now();
    this.#isServing = false;
    for (;;) {
      // The tick is read before CURRENT, so that CURRENT and the log have all that the tick has published.
      const tick = this.#options.ticks.of(this.id);
      const opened = this.#opened;
      if (opened === null || opened.stamp !== stampOf(this.#currentFile)) {
        if (!(await this.#open())) return null;
        continue;
      }
      const { current } = opened.store;
      const published = publishedOf(this.id, current, tick);
      if (source !== null && published.source !== source) return this.#cannot('other_database');
      if (this.#damaged.includes(current)) return this.#cannot('damaged');
      try {
        const pending = opened.store.findPending(published.tick, published.logEnd);
        const ofTick = tickInstantOf(published);
        // Without pending batches, the store may show a later tick, if the tick's file went back.
        const instant = pending === null ? later(ofTick, opened.instant) : ofTick;
        const end = pending?.end ?? opened.store.part().position;
        this.#isServing = true;
        return { opened, tick, pending, end, instant };
      } catch (error) {
        this.#damaged.add(current, error);
        await this.#replace(null);
        return this.#cannot('damaged');
      }
    }
  }

  #cannot(reason: Unavailability): null {
    this.#unavailability = reason;
    return null;
  }

  /** False if nothing readable is published. Concurrent calls share one attempt. */
  async #open(): Promise<boolean> {
    const isSame = this.#failedStamp === stampOf(this.#currentFile);
    if (isSame && performance.now() < this.#retryAt) return false;
    this.#opening ??= this.#options.opening
      .add(() => this.#openCurrent())
      .catch((error) => this.#handleFailure(error))
      .finally(() => {
        this.#opening = null;
      });
    await this.#opening;
    return this.#opened !== null;
  }

  async #openCurrent(): Promise<void> {
    const { instance, bases, ticks, shortcuts, withEviction } = this.#options;
    const tick = ticks.of(this.id);
    const stamp = stampOf(this.#currentFile);
    const current = await withEviction(async () => readCurrent(this.#directory, layoutVersion));
    if (current === null || this.#damaged.includes(current)) {
      this.#unavailability = current === null ? 'not_loaded' : 'damaged';
      await this.#replace(null);
      return;
    }
    openedStores += 1;
    const published = publishedOf(this.id, current, tick);
    const options = {
      published: published.tick,
      logEnd: published.logEnd,
      catalog: `delta_${openedStores}`,
      shortcuts,
    };
    const connection = await instance.connect();
    try {
      const store = await withEviction(() =>
        openStore(connection, bases, this.#directory, current, options),
      );
      const { catalogs, applied, base } = store;
      const { cache } = base.content;
      const generation = await createGeneration(connection, catalogs, applied, shortcuts, cache);
      const version = { generation, instant: tickInstantOf(published) };
      await this.#replace(new VersionedStore(instance, store, stamp, version));
    } catch (error) {
      // Meanwhile the worker may have published other files, and removed these.
      if (stampOf(this.#currentFile) !== stamp) return this.#openCurrent();
      if (!isDamage(error)) throw error;
      this.#damaged.add(current, error);
      this.#unavailability = 'damaged';
      await this.#replace(null);
      return;
    } finally {
      connection.closeSync();
    }
    this.#failures = 0;
    await this.#options.onOpened();
  }

  #handleFailure(error: unknown): void {
    this.#failures += 1;
    this.#unavailability = 'unreadable';
    const delayMs = Math.min(maxRetryDelayMs, minRetryDelayMs * 2 ** this.#failures);
    this.#retryAt = performance.now() + delayMs;
    this.#failedStamp = stampOf(this.#currentFile);
    this.#options.onError(this.id, error);
    if (isInvalidCurrent(error)) this.#damaged.report('CURRENT');
  }

  async #replace(next: VersionedStore | null): Promise<void> {
    const previous = this.#opened;
    this.#opened = next;
    await previous?.retire().catch((error) => this.#options.onError(this.id, error));
  }
}
