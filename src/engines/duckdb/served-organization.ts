import { isCorruption, isDamage } from '../../duckdb/damage.ts';
import { layoutVersion } from '../../purchase-store/layout.ts';
import {
  currentFile,
  isLaterInHistory,
  organizationDirectory,
  type PublishedGeneration,
  publishedBase,
  readPublished,
  stampOf,
} from '../../purchase-store/published-generation.ts';
import type { UpToDateReader } from '../../purchase-store/up-to-date.ts';
import { sendWorkerRequest } from '../../purchase-store/worker-requests.ts';
import type { AttachedGeneration, Attachments } from './attachments.ts';

/** An attached generation, valid until it is released. */
export type GenerationLease = Pick<
  AttachedGeneration,
  'generation' | 'published' | 'descriptors'
> & {
  /** The generation shows all changes up to this instant; microseconds since 1970. */
  readonly asOf: bigint;
  release(): void;
};

type ServedOrganizationOptions = {
  readonly dataDirectory: string;
  readonly attachments: Attachments;
  readonly upToDate: UpToDateReader;
  /** Runs `work`, and once more after an eviction if DuckDB runs out of memory. */
  readonly withEviction: <Result>(work: () => Promise<Result>) => Promise<Result>;
  readonly onAttached: () => Promise<void>;
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

/** Why queries of an organization do not read its files. */
export type Unavailability = 'not_loaded' | 'damaged' | 'unreadable' | 'other_database';

export const pollIntervalMs = 100;
/** While a worker confirms the generation, CURRENT is read rarely, in case the worker stops. */
const confirmedPollIntervalMs = 1_000;
const maxRetryDelayMs = 60_000;
const maxIdleMs = 15 * 60_000;
const damageReportIntervalMs = 60_000;

/**
 * The generation that serves one organization. A refresh attaches a newer one, warms it, and
 * switches. If that fails, the previous generation goes on serving.
 */
export class ServedOrganization {
  readonly id: bigint;
  readonly #options: ServedOrganizationOptions;
  readonly #directory: string;
  #current: AttachedGeneration | null = null;
  /** The generation that was attached last, and the latest instant that it is known to show. */
  #served: PublishedGeneration | null = null;
  #asOf = 0n;
  /** Whether a worker reports that no newer generation is due. */
  #isConfirmed = false;
  /** The stamp of the CURRENT file that was read last, and when (monotonic). */
  #stamp: string | null = null;
  #readAt = 0;
  #refreshing: Promise<void> | null = null;
  /** Requests that wait for the first refresh. */
  #waiting = 0;
  #lastUsedAt = 0;
  #failures = 0;
  /** No refresh before this time (milliseconds since 1970). */
  #retryAt = 0;
  /** The base of the last attempt to attach, and the stamp of CURRENT that named it. */
  #attaching: { readonly base: string; readonly stamp: string | null } | null = null;
  /**
   * The base of an unreadable generation (empty: CURRENT itself), and when the worker received a
   * report (monotonic). The base identifies the damage: later generations share it.
   */
  #damaged: { readonly base: string; readonly reportedAt: number } | null = null;
  /** The published file cannot be served, so an evicted generation could not be attached again. */
  #isPublishedUnreadable = false;
  /** Whether the last query read the attached generation. */
  #isServing = false;
  /** Whether the attached generation is not from the source of the last query. */
  #isOfOtherSource = false;

  /** `previous` served the organization in another instance: its instant and damage still hold. */
  constructor(id: bigint, options: ServedOrganizationOptions, previous?: ServedOrganization) {
    this.id = id;
    if (previous !== undefined) {
      this.#served = previous.#served;
      this.#asOf = previous.#asOf;
      this.#damaged = previous.#damaged;
    }
    this.#options = options;
    this.#directory = organizationDirectory(options.dataDirectory, id);
  }

  get isAttached(): boolean {
    return this.#current !== null;
  }

  /** The instant that responses show; null if queries do not read a published generation. */
  get servedAsOf(): bigint | null {
    // Without a stamp, the files have been removed with their organization.
    return this.#isServing && this.#current !== null && this.#stamp !== null ? this.#asOf : null;
  }

  get unavailability(): Unavailability {
    const base = this.#current?.published.base ?? this.#damaged?.base;
    if (base !== undefined && base === this.#damaged?.base) return 'damaged';
    if (this.#current === null) return this.#isPublishedUnreadable ? 'unreadable' : 'not_loaded';
    // A DuckDB instance that was invalidated reads none of its files.
    return this.#isOfOtherSource ? 'other_database' : 'unreadable';
  }

  get isEvictable(): boolean {
    const isInUse = this.#current !== null && this.#current.users > 0;
    return (
      !isInUse && this.#waiting === 0 && this.#refreshing === null && !this.#isPublishedUnreadable
    );
  }

  /** Null if no readable generation is from `source`. A null `source` accepts every generation. */
  async acquire(source: string | null): Promise<GenerationLease | null> {
    this.#lastUsedAt = Date.now();
    if (this.#current === null) {
      this.#waiting += 1;
      await this.refresh().finally(() => {
        this.#waiting -= 1;
      });
    }
    this.#isServing = false;
    const current = this.#current;
    if (current === null) return null;
    const { published } = current;
    this.#isOfOtherSource = source !== null && published.source !== source;
    if (this.#isOfOtherSource) return null;
    if (published.base === this.#damaged?.base) {
      this.reportDamage(published.base);
      return null;
    }
    this.#confirm(current);
    this.#isServing = true;
    const release = this.#options.attachments.use(current);
    return {
      ...current,
      asOf: this.#asOf,
      release: () => void release().catch((error) => this.#options.onError(this.id, error)),
    };
  }

  /**
   * Switches to the published generation. Concurrent calls share one refresh. After each failure
   * the delay before the next attempt doubles.
   */
  refresh(): Promise<void> {
    if (Date.now() < this.#retryAt) return Promise.resolve();
    this.#refreshing ??= this.#attachPublished()
      .then(() => {
        this.#failures = 0;
      })
      .catch((error) => this.#handleFailure(error))
      .finally(() => {
        this.#refreshing = null;
      });
    return this.#refreshing;
  }

  /** Evicts an idle generation. Otherwise refreshes, rarely while a worker confirms the generation. */
  async poll(): Promise<void> {
    if (this.#current === null) return;
    this.#confirm(this.#current);
    // Reading CURRENT of a thousand organizations ten times a second keeps a process busy.
    const isDue = !this.#isConfirmed || performance.now() - this.#readAt >= confirmedPollIntervalMs;
    if (Date.now() - this.#lastUsedAt > maxIdleMs && this.isEvictable) await this.evict();
    else if (isDue) await this.refresh();
  }

  /** Stops serving generations with this base, and sends the worker a request to rebuild it. */
  reportDamage(base: string): void {
    const now = performance.now();
    const { base: reported, reportedAt = 0 } = this.#damaged ?? {};
    if (reported === base && now - reportedAt < damageReportIntervalMs) return;
    this.#damaged = { base, reportedAt: now };
    try {
      sendWorkerRequest(this.#options.dataDirectory, 'damaged', this.id, base);
    } catch (error) {
      this.#options.onError(this.id, error);
    }
  }

  async evict(): Promise<void> {
    this.#stamp = null;
    await this.#replace(null);
  }

  async close(): Promise<void> {
    await this.#refreshing;
    await this.#replace(null);
  }

  async #attachPublished(): Promise<void> {
    this.#readAt = performance.now();
    const stamp = stampOf(currentFile(this.#directory));
    if (stamp === this.#stamp) return;
    const published = stamp === null ? null : readPublished(this.#directory);
    if (published === null || published.layoutVersion !== layoutVersion) {
      this.#stamp = stamp;
      this.#isPublishedUnreadable = published !== null;
      return;
    }
    // Without a generation, requests wait, and warm the file with their own queries.
    const warm = this.#current !== null;
    this.#attaching = { base: published.base, stamp };
    const { attachments, withEviction, onAttached } = this.#options;
    const next = await withEviction(() => attachments.attach(this.id, published, { warm }));
    this.#stamp = stamp;
    this.#isPublishedUnreadable = false;
    // The published instant is the beginning of a transaction. A later poll may have confirmed the
    // served generation before that transaction took its snapshot.
    const isLater = this.#served !== null && isLaterInHistory(published, this.#served);
    if (!isLater || published.asOf > this.#asOf) this.#asOf = published.asOf;
    this.#served = published;
    this.#isConfirmed = false;
    await this.#replace(next);
    await onAttached();
  }

  #handleFailure(error: unknown): void {
    this.#failures += 1;
    this.#isPublishedUnreadable = true;
    this.#retryAt = Date.now() + Math.min(maxRetryDelayMs, pollIntervalMs * 2 ** this.#failures);
    this.#options.onError(this.id, error);
    const base = publishedBase(this.#directory);
    if (!isDamage(error) || base === null) return;
    // Meanwhile the worker may have published other files, and removed those that failed.
    const isPublished = this.#attaching?.stamp === stampOf(currentFile(this.#directory));
    const isSameBase = base === this.#attaching?.base && (isPublished || isCorruption(error));
    if (base === '' || isSameBase) {
      this.reportDamage(base);
    }
  }

  async #replace(next: AttachedGeneration | null): Promise<void> {
    const previous = this.#current;
    this.#current = next;
    if (previous !== null) await this.#options.attachments.retire(previous);
  }

  /** Reads the instant up to which workers report the generation as complete. */
  #confirm({ published }: AttachedGeneration): void {
    const instant = this.#options.upToDate.instantOf(this.id, published.file);
    this.#isConfirmed = instant !== null;
    if (instant !== null && instant > this.#asOf) this.#asOf = instant;
  }
}
