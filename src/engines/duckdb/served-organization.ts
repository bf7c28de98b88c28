import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type PQueue from 'p-queue';
import type { DataVersion, StoreFiles } from '../../domain/purchase-engine.ts';
import { isCorruption, isDamage } from '../../duckdb/damage.ts';
import {
  type Current,
  currentFile,
  organizationDirectory,
  readCurrent,
  stampOf,
} from '../../purchase-store/current.ts';
import { sendDamageReport } from '../../purchase-store/damage-reports.ts';
import type { Applied } from '../../purchase-store/delta/delta.ts';
import { layoutVersion } from '../../purchase-store/layout.ts';
import { DamagedLogError } from '../../purchase-store/log.ts';
import {
  type Bases,
  type OpenStore,
  openStore,
  type PendingBatches,
} from '../../purchase-store/open-store.ts';
import { shownWatermark } from '../../purchase-store/shown.ts';
import type { TickFile, TickReader } from '../../purchase-store/tick-file.ts';
import { type BaseCache, createGeneration, type Generation, nextGeneration } from './generation.ts';

/** What the users of an attached base share. `descriptor` is null without a base. */
export type SharedBase = { readonly descriptor: number | null; readonly cache: BaseCache };

/** The data that one query reads: all its statements see the same version. */
export type Lease = {
  readonly generation: Generation;
  readonly files: StoreFiles;
  /** The data show all changes up to this instant; microseconds since 1970. */
  readonly asOf: bigint;
  /** Keeps the files open after the query, until the returned function is called. */
  hold(): () => Promise<void>;
  /** Stops serving the files if an error of a reader that holds them shows damage. */
  reportDamage(error: unknown): void;
};

type ServedOrganizationOptions = {
  readonly dataDirectory: string;
  readonly instance: DuckDBInstance;
  readonly bases: Bases<SharedBase>;
  readonly ticks: TickReader;
  /** Opens one organization at a time: each occupies a thread of libuv's pool. */
  readonly opening: PQueue;
  /** Runs `work`, and once more after an eviction if DuckDB runs out of memory. */
  readonly withEviction: <Result>(work: () => Promise<Result>) => Promise<Result>;
  readonly onOpened: () => Promise<void>;
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

/** Why queries of an organization do not read its files. */
export type Unavailability = 'not_loaded' | 'damaged' | 'unreadable' | 'other_database';

/** An open store, and the generation that its queries see. */
type Opened = {
  readonly store: OpenStore<SharedBase>;
  /** Of the CURRENT file that names the store. */
  readonly stamp: string | null;
  version: Version;
  /** Transactions of queries that are about to begin: no application is committed meanwhile. */
  beginning: number;
  /** Pending while an application is committed: no transaction begins meanwhile. */
  committing: Promise<void> | null;
  users: number;
  isRetired: boolean;
  applying: Promise<void> | null;
};

/** What responses state. Of two, the one of the later tick holds: Postgres's clock may go back. */
type Shown = { readonly tick: number; readonly asOf: bigint };

/** What a transaction that begins now sees: all changes up to `shown`, and none later than its tick. */
type Version = { readonly generation: Generation; readonly shown: Shown };

/** What the newest published tick says of an open store. */
type Found = {
  readonly opened: Opened;
  readonly pending: PendingBatches | null;
  readonly shown: Shown;
};

const minRetryDelayMs = 200;
const maxRetryDelayMs = 60_000;
const damageReportIntervalMs = 60_000;
/** Replaying the log takes less time than applying so many records one by one. */
const maxAppliedRecords = 5_000;

let openedStores = 0;

/**
 * Serves one organization: opens its files at the first query, and applies the batches that the
 * worker has published since the last one.
 */
export class ServedOrganization {
  readonly id: bigint;
  readonly #options: ServedOrganizationOptions;
  readonly #directory: string;
  #opened: Opened | null = null;
  #opening: Promise<void> | null = null;
  /** What was served last, and what responses have shown of it. */
  #served: Pick<Current, 'source' | 'fingerprint'> | null = null;
  #shown: Shown = { tick: 0, asOf: 0n };
  /** How often the instant went back. It is part of a version's name: cached responses have instants. */
  #clockSteps = 0;
  #failures = 0;
  /** Not opened again before this time (monotonic milliseconds), unless CURRENT is another file. */
  #retryAt = 0;
  #failedStamp: string | null = null;
  /** Damaged files by name, and when the worker received a report (monotonic). */
  readonly #damaged: Map<string, number>;
  #unavailability: Unavailability = 'not_loaded';
  #isServing = false;
  lastUsedAt = performance.now();

  /** `previous` served the organization in another instance: its instant and damage still hold. */
  constructor(id: bigint, options: ServedOrganizationOptions, previous?: ServedOrganization) {
    this.id = id;
    this.#options = options;
    this.#directory = organizationDirectory(options.dataDirectory, id);
    this.#served = previous === undefined ? null : previous.#served;
    if (previous !== undefined) this.#shown = previous.#shown;
    this.#damaged = new Map(previous === undefined ? [] : previous.#damaged);
  }

  get isOpen(): boolean {
    return this.#opened !== null;
  }

  /** The instant that a response would show now; null if queries do not read files. */
  get servedAsOf(): bigint | null {
    const opened = this.#opened;
    // Without CURRENT, the files have been removed with their organization.
    if (!this.#isServing || opened === null || stampOf(this.#currentFile) === null) return null;
    return this.#shownOf(opened.store.current, this.#options.ticks.of(this.id)).asOf;
  }

  get unavailability(): Unavailability {
    return this.#unavailability;
  }

  get isEvictable(): boolean {
    const { applying = null, users = 0 } = this.#opened ?? {};
    return users === 0 && applying === null && this.#opening === null;
  }

  /** About the bytes that the open store takes. */
  get weight(): number {
    return this.#opened === null ? 0 : storeBytes + this.#opened.store.part().records * recordBytes;
  }

  /** The version that a query would read; null if no readable files are from `source`. */
  async version(source: string | null): Promise<DataVersion | null> {
    const found = await this.#find(source);
    if (found === null) return null;
    const { base, log } = found.opened.store.current;
    const position = found.pending?.end ?? found.opened.store.part().position;
    const name = `${base} ${log} ${position} ${this.#clockSteps}`;
    return { name, asOf: found.shown.asOf };
  }

  /**
   * Runs `work` in a transaction on `connection`, which sees one version. Null if no readable files
   * are from `source`; a null `source` accepts all files.
   */
  async use<Result>(
    source: string | null,
    connection: DuckDBConnection,
    work: (lease: Lease) => Promise<Result>,
  ): Promise<{ readonly result: Result } | null> {
    const found = await this.#findApplied(source);
    if (found === null) return null;
    const { opened } = found;
    const hold = () => this.#hold(opened);
    const reportDamage = (error: unknown) => {
      if (isCorruption(error)) this.#handleDamage(opened.store.current, error);
    };
    const release = hold();
    try {
      const { generation, shown } = await begin(connection, found);
      const { asOf } = shown;
      const files = filesOf(opened.store, asOf);
      const result = await work({ generation, asOf, files, hold, reportDamage });
      await connection.run('commit');
      return { result };
    } catch (error) {
      await rollback(connection);
      reportDamage(error);
      throw error;
    } finally {
      await release();
    }
  }

  #hold(opened: Opened): () => Promise<void> {
    opened.users += 1;
    return async () => {
      opened.users -= 1;
      await this.#closeUnused(opened);
    };
  }

  async evict(): Promise<void> {
    await this.#replace(null);
  }

  async close(): Promise<void> {
    await this.#opening;
    await this.#opened?.applying?.catch(() => {});
    await this.#replace(null);
  }

  get #currentFile(): string {
    return currentFile(this.#directory);
  }

  /**
   * Applies the batches that are pending now. Not those of later ticks: if ticks came faster than
   * batches can be applied, a query would never begin.
   */
  async #findApplied(source: string | null): Promise<Found | null> {
    for (;;) {
      const found = await this.#find(source);
      if (found === null || found.pending === null) return found;
      const { opened, pending } = found;
      if (pending.records > maxAppliedRecords) await this.#replace(null);
      while (this.#opened === opened && opened.store.part().position < pending.end) {
        // Concurrent queries share one application.
        opened.applying ??= this.#apply(opened).finally(() => {
          opened.applying = null;
        });
        await opened.applying;
      }
      if (this.#opened === opened) return found;
    }
  }

  async #apply(opened: Opened): Promise<void> {
    const { store } = opened;
    const tick = this.#options.ticks.of(this.id);
    const pending = store.findPending(tick?.tick ?? 0);
    if (pending === null) return;
    const shown = this.#shownOf(store.current, tick);
    const connection = await this.#options.instance.connect();
    let committed = () => {};
    let applied: Applied | null = null;
    try {
      await store.apply(connection, pending, async (changes) => {
        applied = changes;
        opened.committing = new Promise((resolve) => {
          committed = resolve;
        });
        while (opened.beginning > 0) await sleep(1);
      });
      if (applied === null) return;
      opened.version = nextVersion(opened.version, applied, shown);
    } catch (error) {
      if (isDamage(error)) this.#handleDamage(store.current, error);
      if (this.#opened === opened) await this.#replace(null);
      throw error;
    } finally {
      opened.committing = null;
      committed();
      connection.closeSync();
    }
  }

  /** Opens what CURRENT names, and looks for batches of published ticks. */
  async #find(source: string | null): Promise<Found | null> {
    this.lastUsedAt = performance.now();
    this.#isServing = false;
    for (;;) {
      // In this order: CURRENT and the log then have all that the tick has published.
      const tick = this.#options.ticks.of(this.id);
      const opened = this.#opened;
      if (opened === null || opened.stamp !== stampOf(this.#currentFile)) {
        if (!(await this.#open())) return null;
        continue;
      }
      const { current } = opened.store;
      if (source !== null && current.source !== source) return this.#cannot('other_database');
      if (this.#isDamaged(current)) return this.#cannot('damaged');
      try {
        const pending = opened.store.findPending(tick?.tick ?? 0);
        const shown = this.#shownOf(current, tick);
        this.#isServing = true;
        return { opened, pending, shown };
      } catch (error) {
        this.#handleDamage(current, error);
        return this.#cannot('damaged');
      }
    }
  }

  #cannot(reason: Unavailability): null {
    this.#unavailability = reason;
    return null;
  }

  /** What responses show. It is never of an earlier tick within one history of the database. */
  #shownOf(current: Current, tick: TickFile | null): Shown {
    const { asOf } = shownWatermark(this.id, current, tick);
    const shown = { tick: Math.max(current.tick, tick?.tick ?? 0), asOf };
    const served = this.#served;
    const isSameHistory =
      served?.source === current.source && served.fingerprint === current.fingerprint;
    this.#served = current;
    const before = this.#shown;
    this.#shown = isSameHistory ? later(before, shown) : shown;
    if (this.#shown.asOf < before.asOf) this.#clockSteps += 1;
    return this.#shown;
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
    const { instance, bases, ticks, withEviction } = this.#options;
    const tick = ticks.of(this.id);
    const stamp = stampOf(this.#currentFile);
    const current = stamp === null ? null : readCurrent(this.#directory, layoutVersion);
    if (current === null || this.#isDamaged(current)) {
      this.#unavailability = current === null ? 'not_loaded' : 'damaged';
      await this.#replace(null);
      return;
    }
    openedStores += 1;
    const options = { published: tick?.tick ?? 0, catalog: `delta_${openedStores}` };
    const connection = await instance.connect();
    try {
      const store = await withEviction(() =>
        openStore(connection, bases, this.#directory, current, options),
      );
      const { cache } = store.base.content;
      const generation = await createGeneration(connection, store.catalogs, cache);
      const version = { generation, shown: this.#shownOf(current, tick) };
      const idle = { users: 0, beginning: 0, isRetired: false, applying: null, committing: null };
      await this.#replace({ store, stamp, version, ...idle });
    } catch (error) {
      // Meanwhile the worker may have published other files, and removed these.
      if (stampOf(this.#currentFile) !== stamp) return this.#openCurrent();
      if (!isDamage(error)) throw error;
      this.#handleDamage(current, error);
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
    // CURRENT itself cannot be read.
    if (error instanceof SyntaxError || (error as Error).name === 'ZodError')
      this.#report('CURRENT');
  }

  /** Stops serving these files, and makes the worker rebuild them. */
  #handleDamage(current: Current, error: unknown): void {
    this.#options.onError(this.id, error);
    const isOfLog = error instanceof DamagedLogError || current.base === null;
    this.#report(isOfLog ? current.log : (current.base as string));
  }

  #isDamaged({ base, log }: Current): boolean {
    const name = [base, log].find((each) => each !== null && this.#damaged.has(each));
    if (name == null) return false;
    this.#report(name);
    return true;
  }

  #report(name: string): void {
    const now = performance.now();
    const reportedAt = this.#damaged.get(name);
    if (reportedAt !== undefined && now - reportedAt < damageReportIntervalMs) return;
    this.#damaged.set(name, now);
    try {
      sendDamageReport(this.#options.dataDirectory, this.id, name);
    } catch (error) {
      this.#options.onError(this.id, error);
    }
  }

  async #replace(next: Opened | null): Promise<void> {
    const previous = this.#opened;
    this.#opened = next;
    if (previous === null) return;
    previous.isRetired = true;
    await this.#closeUnused(previous);
  }

  async #closeUnused(opened: Opened): Promise<void> {
    if (!opened.isRetired || opened.users > 0) return;
    // Two calls must not close it.
    opened.isRetired = false;
    try {
      await opened.applying?.catch(() => {});
      const connection = await this.#options.instance.connect();
      await opened.store.close(connection).finally(() => connection.closeSync());
    } catch (error) {
      this.#options.onError(this.id, error);
    }
  }
}

/** Of an open store without changes, and of each record. Measured with 300 stores. */
const storeBytes = 300_000;
const recordBytes = 700;

const later = (one: Shown, other: Shown): Shown =>
  one.tick > other.tick || (one.tick === other.tick && one.asOf > other.asOf) ? one : other;

const nextVersion = ({ generation }: Version, applied: Applied, shown: Shown): Version => ({
  generation: nextGeneration(generation, applied),
  shown,
});

/**
 * Begins a transaction, and returns what it sees, which another query may have moved on meanwhile.
 * DuckDB fixes what a transaction sees of a database at its first use. USE is one that needs no plan:
 * a SELECT took 0.2 ms more.
 */
async function begin(connection: DuckDBConnection, { opened, shown }: Found): Promise<Version> {
  while (opened.committing !== null) await opened.committing;
  opened.beginning += 1;
  try {
    await connection.run(`begin transaction read only; use ${opened.store.catalogs.delta}`);
    const { version } = opened;
    return { ...version, shown: later(shown, version.shown) };
  } finally {
    opened.beginning -= 1;
  }
}

/** An interrupt of the query may also interrupt the rollback. */
async function rollback(connection: DuckDBConnection): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await connection.run('rollback');
      return;
    } catch (error) {
      if (/no transaction is active/i.test(String(error)) || attempt === maxRollbacks) return;
    }
    await sleep(1);
  }
}

const maxRollbacks = 100;

const filesOf = (
  { base, logDescriptor, part }: OpenStore<SharedBase>,
  asOf: bigint,
): StoreFiles => {
  const { lines, position } = part();
  return {
    base: base.content.descriptor,
    log: logDescriptor,
    part: { lines, bytes: position },
    asOf,
  };
};
