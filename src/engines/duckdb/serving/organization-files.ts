import type { DuckDBInstance } from '@duckdb/node-api';
import type PQueue from 'p-queue';
import { isDamage } from '../../../duckdb/damage.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { DamagedFiles } from '../../../purchase-store/damage/damaged-files.ts';
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
import { createGeneration } from './generation.ts';
import { later, type TickInstant, tickInstantOf } from './tick-instant.ts';
import { type SharedBase, VersionedStore } from './versioned-store.ts';

export type FilesOptions = {
  readonly dataDirectory: string;
  readonly instance: DuckDBInstance;
  readonly bases: Bases<SharedBase>;
  readonly ticks: TickReader;
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
export type Found = {
  readonly opened: VersionedStore;
  readonly tick: TickFile | null;
  readonly pending: PendingBatches | null;
  /** The part of the log that the tick shows, and its instant. */
  readonly end: number;
  readonly instant: TickInstant;
};

const minRetryDelayMs = 200;
const maxRetryDelayMs = 60_000;

let openedStores = 0;

/** Opens the files of one organization that CURRENT names, and again when it names others. */
export class OrganizationFiles {
  readonly damaged: DamagedFiles;
  readonly #id: bigint;
  readonly #options: FilesOptions;
  readonly #directory: string;
  #opened: VersionedStore | null = null;
  #opening: Promise<void> | null = null;
  #failures = 0;
  /** Not opened again before this time (monotonic milliseconds), unless CURRENT is another file. */
  #retryAt = 0;
  #failedStamp: string | null = null;
  #unavailability: Unavailability = 'not_loaded';

  /** `previous` were opened in another instance: they may be damaged. */
  constructor(id: bigint, options: FilesOptions, previous?: OrganizationFiles) {
    this.#id = id;
    this.#options = options;
    this.#directory = organizationDirectory(options.dataDirectory, id);
    const { dataDirectory, onError } = options;
    this.damaged = previous?.damaged ?? new DamagedFiles(dataDirectory, id, onError);
  }

  get opened(): VersionedStore | null {
    return this.#opened;
  }

  /** The open files are still there: they are removed with their organization. */
  get arePresent(): boolean {
    return this.#opened !== null && this.#stamp !== null;
  }

  get isEvictable(): boolean {
    return this.#opened?.isInUse !== true && this.#opening === null;
  }

  get unavailability(): Unavailability {
    return this.#unavailability;
  }

  /** Opens the files that CURRENT names, and finds their pending batches. Null if none from `source` are readable. */
  async find(source: string | null): Promise<Found | null> {
    for (;;) {
      // The tick is read before CURRENT, so that CURRENT and the log have all that the tick has published.
      const tick = this.#options.ticks.of(this.#id);
      const opened = this.#opened;
      if (opened === null || opened.stamp !== this.#stamp) {
        if (!(await this.#open())) return null;
        continue;
      }
      const { current } = opened.store;
      const published = publishedOf(this.#id, current, tick);
      if (source !== null && published.source !== source) return this.#cannot('other_database');
      if (this.damaged.includes(current)) return this.#cannot('damaged');
      try {
        const pending = opened.store.findPending(published.tick, published.logEnd);
        const ofTick = tickInstantOf(published);
        // Without pending batches, the store may show a later tick, if the tick's file went back.
        const instant = pending === null ? later(ofTick, opened.instant) : ofTick;
        const end = pending?.end ?? opened.store.part().bytes;
        return { opened, tick, pending, end, instant };
      } catch (error) {
        this.damaged.add(current, error);
        await this.replace(null);
        return this.#cannot('damaged');
      }
    }
  }

  /** Serves other files from now on, and closes the present ones when nothing uses them. */
  async replace(next: VersionedStore | null): Promise<void> {
    const previous = this.#opened;
    this.#opened = next;
    await previous?.retire().catch((error) => this.#options.onError(this.#id, error));
  }

  async close(): Promise<void> {
    await this.#opening;
    await this.#opened?.waitForChange();
    await this.replace(null);
  }

  get #stamp(): string | null {
    return stampOf(currentFile(this.#directory));
  }

  #cannot(reason: Unavailability): null {
    this.#unavailability = reason;
    return null;
  }

  /** False if nothing readable is published. Concurrent calls share one attempt. */
  async #open(): Promise<boolean> {
    if (this.#failedStamp === this.#stamp && performance.now() < this.#retryAt) return false;
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
    const tick = ticks.of(this.#id);
    const stamp = this.#stamp;
    const current = await withEviction(async () => readCurrent(this.#directory, layoutVersion));
    if (current === null || this.damaged.includes(current)) {
      this.#unavailability = current === null ? 'not_loaded' : 'damaged';
      await this.replace(null);
      return;
    }
    openedStores += 1;
    const published = publishedOf(this.#id, current, tick);
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
      await this.replace(new VersionedStore(instance, store, stamp, version));
    } catch (error) {
      // Meanwhile the worker may have published other files, and removed these.
      if (this.#stamp !== stamp) return this.#openCurrent();
      if (!isDamage(error)) throw error;
      this.damaged.add(current, error);
      this.#unavailability = 'damaged';
      await this.replace(null);
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
    this.#failedStamp = this.#stamp;
    this.#options.onError(this.#id, error);
    if (isInvalidCurrent(error)) this.damaged.report('CURRENT');
  }
}
