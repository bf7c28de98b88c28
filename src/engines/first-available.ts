import {
  NoGenerationError,
  type PurchaseEngine,
  type PurchaseReader,
} from '../domain/purchase-engine.ts';

/** Reads from `preferred` if it has an organization's purchases, otherwise from `fallback`. */
export function firstAvailable(
  preferred: PurchaseEngine,
  fallback: PurchaseEngine,
  onFallback: (organizationId: bigint) => void = () => {},
): PurchaseEngine {
  return {
    ...createReader(preferred, fallback, onFallback),
    forSource: (source) =>
      createReader(preferred.forSource(source), fallback.forSource(source), onFallback),
    close: async () => {
      await preferred.close();
      await fallback.close();
    },
  };
}

function createReader(
  preferred: PurchaseReader,
  fallback: PurchaseReader,
  onFallback: (organizationId: bigint) => void,
): PurchaseReader {
  const fallBack = <Result>(
    organizationId: bigint,
    query: (engine: PurchaseReader) => Promise<Result>,
  ): Promise<Result> => {
    onFallback(organizationId);
    return query(fallback);
  };

  const run = async <Result>(
    organizationId: bigint,
    query: (engine: PurchaseReader) => Promise<Result>,
  ): Promise<Result> => {
    if ((await preferred.freshness(organizationId)) === null)
      return fallBack(organizationId, query);
    try {
      return await query(preferred);
    } catch (error) {
      // The file was evicted while the query was in the queue, or is damaged.
      if (!(error instanceof NoGenerationError)) throw error;
      return fallBack(organizationId, query);
    }
  };

  return {
    list: (organizationId, query, ...rest) =>
      run(organizationId, (engine) => engine.list(organizationId, query, ...rest)),
    get: (organizationId, purchaseId, ...rest) =>
      run(organizationId, (engine) => engine.get(organizationId, purchaseId, ...rest)),
    stats: (organizationId, query, ...rest) =>
      run(organizationId, (engine) => engine.stats(organizationId, query, ...rest)),
    timeSeries: (organizationId, query, ...rest) =>
      run(organizationId, (engine) => engine.timeSeries(organizationId, query, ...rest)),
    export: (organizationId, filters, take, signal) =>
      run(organizationId, (engine) => engine.export(organizationId, filters, take, signal)),
    freshness: async (organizationId) =>
      (await preferred.freshness(organizationId)) ?? fallback.freshness(organizationId),
    version: async (organizationId) =>
      (await preferred.version(organizationId)) ?? fallback.version(organizationId),
    waitUntilFresh: (organizationId, instant, signal) =>
      run(organizationId, (engine) => engine.waitUntilFresh(organizationId, instant, signal)),
  };
}
