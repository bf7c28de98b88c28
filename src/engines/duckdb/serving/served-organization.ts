import type { DuckDBConnection } from '@duckdb/node-api';
import {
  type DataVersion,
  NoGenerationError,
  type StoreFiles,
  type Versioned,
} from '../../../domain/purchase-engine.ts';
import { isCorruption, isDamage } from '../../../duckdb/damage.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import type { ChangedPurchase } from '../../../purchase-store/delta/decode-records.ts';
import { publishedOf } from '../../../purchase-store/ticks/published.ts';
import type { ServedInstants } from '../../served-instants.ts';
import type { CachedLists, ListCache } from '../list/list-cache.ts';
import { createFollower, type Follower } from './follower.ts';
import type { Generation } from './generation.ts';
import {
  type FilesOptions,
  type Found,
  OrganizationFiles,
  type Unavailability,
} from './organization-files.ts';
import { commit, rollback, type Version, type VersionedStore } from './versioned-store.ts';

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

type ServedOrganizationOptions = FilesOptions & { readonly lists: ListCache };

/** The name of the data of an open store with a part of its log. */
const nameOf = ({ store: { current } }: VersionedStore, logBytes: number): string =>
  `${current.base} ${current.log} ${logBytes}`;

/** False also if the pending changes cannot be read: applying them reports why. */
function isUnaffected(
  { opened: { store }, pending }: Found,
  isAffectedBy: NonNullable<UseOptions['isAffectedBy']>,
  { maxSearchedChangesBytes }: Shortcuts,
): boolean {
  if (pending === null) return true;
  try {
    const { bytes } = store.part();
    const changed = store.changesBetween(bytes, pending.end, maxSearchedChangesBytes);
    return changed !== null && !isAffectedBy(changed);
  } catch {
    return false;
  }
}

/**
 * Serves one organization: opens its files at the first query, and applies the batches that the
 * worker has published since the last one.
 */
export class ServedOrganization {
  readonly id: bigint;
  readonly #options: ServedOrganizationOptions;
  readonly #files: OrganizationFiles;
  readonly #follower: Follower;
  /** The last query could read the files. */
  #isServing = false;
  lastUsedAt = performance.now();

  /** `previous` served the organization in another instance. */
  constructor(id: bigint, options: ServedOrganizationOptions, previous?: ServedOrganization) {
    this.id = id;
    this.#options = options;
    const previousFiles = previous === undefined ? undefined : previous.#files;
    this.#files = new OrganizationFiles(id, options, previousFiles);
    this.#follower = createFollower(options.shortcuts.maxPauseMs, () => this.#applyPublished());
  }

  get isOpen(): boolean {
    return this.#files.opened !== null;
  }

  /** The instants of a response now; null if queries do not read files. */
  get servedInstants(): ServedInstants | null {
    const { opened, arePresent } = this.#files;
    if (opened === null || !arePresent || !this.#isServing) return null;
    const tick = this.#options.ticks.of(this.id);
    const { instant, polledAt } = publishedOf(this.id, opened.store.current, tick);
    return { asOf: instant, tickAsOf: polledAt };
  }

  get unavailability(): Unavailability {
    return this.#files.unavailability;
  }

  get isEvictable(): boolean {
    return this.#files.isEvictable;
  }

  /** About the bytes that the open store takes. */
  get weight(): number {
    return this.#files.opened?.weight ?? 0;
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
    if (found === null || found.opened !== this.#files.opened) return null;
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

  #listsOf({ store }: VersionedStore, logBytes: number): CachedLists {
    const { lists, shortcuts } = this.#options;
    return lists.of({
      catalog: store.catalogs.delta,
      logBytes,
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
    while (found !== null && found.opened !== this.#files.opened) {
      found = await this.#findApplied(source, isAffectedBy);
    }
    if (found === null) return null;
    const { opened, end } = found;
    const hold = () => this.#hold(opened);
    const reportDamage = (error: unknown) => {
      if (isCorruption(error)) this.#files.damaged.add(opened.store.current, error);
    };
    const runWith = (seen: Version) => {
      const { bytes } = seen.part;
      // Batches that do not affect the query may be pending.
      const name = nameOf(opened, Math.max(bytes, end));
      const version = { name, asOf: seen.instant.asOf };
      const [files, lists] = [opened.filesOf(seen), this.#listsOf(opened, bytes)];
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
    await this.#files.replace(null);
  }

  async close(): Promise<void> {
    this.#follower.stop();
    await this.#files.close();
  }

  /** Applies what a tick has published since. The next query reports a failure. */
  async #applyPublished(): Promise<void> {
    if (this.#files.opened === null) return;
    try {
      const found = await this.#files.find(null);
      if (found?.pending) await this.#change(found.opened, () => this.#apply(found));
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
      while (this.#files.opened === opened && opened.store.part().bytes < pending.end) {
        await this.#change(opened, () => this.#apply(found));
      }
      if (this.#files.opened === opened) return found;
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
      if (this.#files.opened === opened) {
        if (isDamage(error)) this.#files.damaged.add(opened.store.current, error);
        await this.#files.replace(null);
      }
      if (isDamage(error)) throw new NoGenerationError('the files are damaged', { cause: error });
      throw error;
    }
  }

  async #find(source: string | null): Promise<Found | null> {
    this.lastUsedAt = performance.now();
    this.#isServing = false;
    const found = await this.#files.find(source);
    this.#isServing = found !== null;
    return found;
  }
}
