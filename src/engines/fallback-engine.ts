import { LRUCache } from 'lru-cache';
import {
  type DataVersion,
  NoGenerationError,
  type PurchaseEngine,
  type PurchaseReader,
  type Versioned,
} from '../domain/purchase-engine.ts';

/** The longest wait for `preferred` to reach the instant of `fallback`, and the pause after it. */
const maxWaitMs = 5_000;
const waitAgainAfterMs = 30_000;
const maxOrganizations = 10_000;

/**
 * Reads from `preferred` if it has an organization's purchases, otherwise from `fallback`. Once
 * `fallback` has served an instant, `preferred` is used again when it has reached that instant: the
 * data of an organization never go back.
 */
export function createFallbackEngine(
  preferred: PurchaseEngine,
  fallback: PurchaseEngine,
  onFallback: OnFallback = () => {},
): PurchaseEngine {
  const served: FallbackInstants = new LRUCache({ max: maxOrganizations });
  return {
    ...createReader(preferred, fallback, served, onFallback),
    forSource: (source) =>
      createReader(preferred.forSource(source), fallback.forSource(source), served, onFallback),
    close: async () => {
      await preferred.close();
      await fallback.close();
    },
  };
}

/** `isOutdated`: `preferred` has the purchases, of an earlier instant than `fallback` has served. */
type OnFallback = (organizationId: bigint, isOutdated: boolean) => void;

/** The latest instant that `fallback` has served, when, and when to wait for it (milliseconds, monotonic). */
type FallbackInstant = { asOf: bigint; servedAt: number; waitAfter: number };
type FallbackInstants = LRUCache<bigint, FallbackInstant>;

function createReader(
  preferred: PurchaseReader,
  fallback: PurchaseReader,
  served: FallbackInstants,
  onFallback: OnFallback,
): PurchaseReader {
  /** The version that `preferred` has; null if it has none, or only an earlier one than `fallback`. */
  const usableVersion = async (organizationId: bigint): Promise<DataVersion | null> => {
    const later = served.get(organizationId);
    const version = await preferred.version(organizationId);
    if (version === null || later === undefined) return version;
    if (version.asOf < later.asOf) return waitForVersion(organizationId, later);
    served.delete(organizationId);
    return version;
  };

  const waitForVersion = async (
    organizationId: bigint,
    later: FallbackInstant,
  ): Promise<DataVersion | null> => {
    if (performance.now() < later.waitAfter) return null;
    const timeout = AbortSignal.timeout(maxWaitMs);
    try {
      for (;;) {
        await preferred.waitUntilFresh(organizationId, later.asOf, timeout);
        const version = await preferred.version(organizationId);
        // Meanwhile a query of `fallback` may have served a later instant.
        if (version === null || version.asOf >= later.asOf) return version;
      }
    } catch {
      later.waitAfter = performance.now() + waitAgainAfterMs;
      return null;
    }
  };

  const noteServed = (organizationId: bigint, asOf: bigint, startedAt: number): void => {
    const known = served.get(organizationId) ?? { asOf, servedAt: 0, waitAfter: 0 };
    // If the query began later and has an earlier instant, Postgres's clock went back.
    if (asOf > known.asOf || startedAt > known.servedAt) {
      known.asOf = asOf;
      known.servedAt = performance.now();
    }
    served.set(organizationId, known);
  };

  const run = async <Result>(
    organizationId: bigint,
    query: (engine: PurchaseReader) => Promise<Result>,
  ): Promise<Result> => {
    let isOutdated = false;
    try {
      if ((await usableVersion(organizationId)) !== null) return await query(preferred);
      isOutdated = (await preferred.version(organizationId)) !== null;
    } catch (error) {
      // The file was evicted while the query was in the queue, or is damaged.
      if (!(error instanceof NoGenerationError)) throw error;
    }
    onFallback(organizationId, isOutdated);
    return query(fallback);
  };

  const runAsOf = <Result>(
    organizationId: bigint,
    query: (engine: PurchaseReader) => Promise<Versioned<Result>>,
  ): Promise<Versioned<Result>> =>
    run(organizationId, async (engine) => {
      const startedAt = performance.now();
      const result = await query(engine);
      if (engine === fallback) noteServed(organizationId, result.asOf, startedAt);
      return result;
    });

  return {
    list: (organizationId, query, ...rest) =>
      runAsOf(organizationId, (engine) => engine.list(organizationId, query, ...rest)),
    get: (organizationId, purchaseId, ...rest) =>
      runAsOf(organizationId, (engine) => engine.get(organizationId, purchaseId, ...rest)),
    report: (organizationId, query, ...rest) =>
      runAsOf(organizationId, (engine) => engine.report(organizationId, query, ...rest)),
    cohorts: (organizationId, query, ...rest) =>
      runAsOf(organizationId, (engine) => engine.cohorts(organizationId, query, ...rest)),
    export: (organizationId, filters, take, signal) =>
      run(organizationId, (engine) => {
        const startedAt = performance.now();
        return engine.export(
          organizationId,
          filters,
          (source, either) => {
            if (engine === fallback) noteServed(organizationId, source.asOf, startedAt);
            return take(source, either);
          },
          signal,
        );
      }),
    freshness: async (organizationId) =>
      (await usableVersion(organizationId))?.asOf ?? fallback.freshness(organizationId),
    version: async (organizationId) =>
      (await usableVersion(organizationId)) ?? fallback.version(organizationId),
    waitUntilFresh: (organizationId, instant, signal) =>
      run(organizationId, (engine) => engine.waitUntilFresh(organizationId, instant, signal)),
  };
}
