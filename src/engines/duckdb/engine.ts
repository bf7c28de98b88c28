import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { Purchase } from '../../domain/purchase.ts';
import {
  NoGenerationError,
  type PurchaseEngine,
  type PurchaseReader,
  type QueuedRead,
} from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import type { PurchaseCohortsQuery, PurchaseReportQuery } from '../../domain/purchase-report.ts';
import { createWaitUntilFresh, type WaitUntilFresh } from '../../domain/wait-until-fresh.ts';
import { createInstance, type DuckDBOptions } from '../../duckdb/connection.ts';
import { invalidatesInstance, isCorruption, isInstanceLost } from '../../duckdb/damage.ts';
import { bytesOf } from '../../duckdb/memory.ts';
import { defaultShortcuts, type Shortcuts } from '../../duckdb/shortcuts.ts';
import { prepareSpill, spillDirectory } from '../../duckdb/spill.ts';
import type { QueryQueueOptions } from '../../queue/query-queue.ts';
import { createAbortableTasks } from '../abortable-tasks.ts';
import { readPurchaseCohorts } from '../report/cohorts.ts';
import { readPurchaseReport } from '../report/report.ts';
import { createPeriodTables, type SharedPeriodTables } from './calendar/period-tables.ts';
import { findPurchase, listPurchases } from './list/list.ts';
import type { CachedLists } from './list/list-cache.ts';
import type { QueryContext } from './query-context.ts';
import type { Generation } from './serving/generation.ts';
import { interruptible } from './serving/interruption.ts';
import { createQueryPool, type QueryPool } from './serving/query-pool.ts';
import type { Lease, UseOptions } from './serving/served-organization.ts';
import {
  createServedOrganizations,
  type ServedOrganizations,
  type ServedOrganizationsOptions,
} from './serving/served-organizations.ts';
import { duckdbSource } from './statistics/source.ts';

export type DuckDBEngineOptions = QueryQueueOptions &
  Pick<ServedOrganizationsOptions, 'dataDirectory' | 'ticks' | 'onError'> &
  Pick<DuckDBOptions, 'threads' | 'memoryLimit'> & {
    /** Called at most once a minute while an invalid instance cannot be replaced. */
    readonly onReplacementFailed?: (error: unknown) => void;
    /** Other thresholds than those of production. */
    readonly shortcuts?: Partial<Shortcuts>;
  };

/** Without changes, a query reads the base alone. */
const readingBase = (): UseOptions => ({ readsBaseAlone: ({ isUnchanged }) => isUnchanged });

/** The part of DuckDB's memory that open organizations may take. Queries need the rest. */
const shareOfOpen = 0.75;

/** The engine, and the state of its current instance, for metrics and probes. */
export type DuckDBEngine = PurchaseEngine & {
  current(): {
    readonly instance: DuckDBInstance;
    readonly queries: Pick<QueryPool, 'state'>;
    readonly organizations: Pick<ServedOrganizations, 'state' | 'unavailability'>;
  };
};

/** The context of all queries. */
type SharedContext = Omit<QueryContext, 'periodTables'>;

/** The resources of one DuckDB instance. */
type EngineParts = {
  readonly instance: DuckDBInstance;
  readonly queries: QueryPool;
  readonly organizations: ServedOrganizations;
  readonly periodTables: SharedPeriodTables;
  readonly context: SharedContext;
  close(): Promise<void>;
};

/**
 * Reads the files that the sync worker publishes. Every method rejects with
 * NoGenerationError until an organization has one, and with QueryTimeoutError after `timeoutMs`.
 *
 * An internal error of DuckDB invalidates the instance. Queries then reject with
 * NoGenerationError, until another instance replaces it.
 */
export async function createDuckDBEngine(options: DuckDBEngineOptions): Promise<DuckDBEngine> {
  const exports = createAbortableTasks();
  let parts = await openParts(options);
  let replacing: Promise<void> | null = null;

  const replace = async (lost: EngineParts): Promise<void> => {
    parts = await openParts(options, lost.organizations.all);
    await lost.close();
  };
  let reportedAt = Number.NEGATIVE_INFINITY;
  /** After a failure, the next query fails too, and tries again. */
  const onReplacementFailed = (error: unknown): void => {
    if (performance.now() - reportedAt < reportIntervalMs) return;
    reportedAt = performance.now();
    options.onReplacementFailed?.(error);
  };
  const onInvalid = (invalid: EngineParts): void => {
    if (invalid !== parts) return;
    replacing ??= replace(invalid)
      .catch(onReplacementFailed)
      .finally(() => {
        replacing = null;
      });
  };
  const newestAsOf = async (organizationId: bigint, source: string | null): Promise<bigint> => {
    const version = await parts.organizations.version(organizationId, source);
    if (version === null) throw new NoGenerationError();
    return version.asOf;
  };
  const waitUntilFresh = createWaitUntilFresh(newestAsOf);

  const readerOptions = { parts: () => parts, onInvalid, exports, waitUntilFresh };
  return {
    ...createReader(readerOptions, null),
    forSource: (source) => createReader(readerOptions, source),
    current: () => parts,
    async close() {
      await exports.close();
      await replacing;
      await parts.close();
    },
  };
}

const reportIntervalMs = 60_000;

/** `previous` are the organizations of an instance that this one replaces. */
async function openParts(
  options: DuckDBEngineOptions,
  previous?: ServedOrganizations['all'],
): Promise<EngineParts> {
  prepareSpill(options.dataDirectory);
  const shortcuts = { ...defaultShortcuts, ...options.shortcuts };
  const instance = await createInstance({
    ...options,
    spillDirectory: spillDirectory(options.dataDirectory, 'api'),
  });
  const queries = createQueryPool(instance, options, shortcuts);
  const organizationsOptions = {
    ...options,
    shortcuts,
    maxBytes: shareOfOpen * bytesOf(options.memoryLimit),
    /** Files of an invalid instance cannot be detached. */
    onError: (organizationId: bigint, error: unknown) => {
      if (!isInstanceLost(error)) options.onError(organizationId, error);
    },
  };
  const organizations = createServedOrganizations(instance, organizationsOptions, previous);
  return {
    instance,
    queries,
    organizations,
    periodTables: createPeriodTables(instance, shortcuts),
    context: { shortcuts },
    async close() {
      await queries.close();
      await organizations.close();
      instance.closeSync();
    },
  };
}

type ReaderOptions = {
  readonly parts: () => EngineParts;
  readonly onInvalid: (parts: EngineParts) => void;
  readonly exports: ReturnType<typeof createAbortableTasks>;
  readonly waitUntilFresh: WaitUntilFresh;
};

/** Reads data from one source, or from any source if `source` is null. */
function createReader(options: ReaderOptions, source: string | null): PurchaseReader {
  const { exports, waitUntilFresh } = options;

  /** Runs `work` on the current instance. NoGenerationError makes another engine run the query. */
  const withParts = async <Result>(
    work: (parts: EngineParts) => Promise<Result>,
  ): Promise<Result> => {
    const parts = options.parts();
    try {
      return await work(parts);
    } catch (error) {
      const cause = error instanceof NoGenerationError ? error.cause : error;
      const isInvalid = invalidatesInstance(cause);
      if (isInvalid) options.onInvalid(parts);
      if (!isInvalid && !isCorruption(cause)) throw error;
      throw new NoGenerationError('the file cannot be read', { cause });
    }
  };

  const queued =
    <Query, Result>(
      read: (
        connection: DuckDBConnection,
        lease: Lease,
        query: Query,
        context: QueryContext,
      ) => Promise<Result>,
      optionsOf: (query: Query) => UseOptions = () => ({}),
    ): QueuedRead<Query, Result> =>
    (organizationId, query, signal, client) =>
      withParts(({ queries, organizations, periodTables, context }) =>
        queries.run({ organizationId, name: client }, signal, (connection) =>
          organizations.withEviction(() =>
            organizations.use(
              organizationId,
              source,
              connection,
              async (lease) => ({
                result: await read(connection, lease, query, {
                  ...context,
                  periodTables: periodTables.of(connection),
                }),
                asOf: lease.version.asOf,
                version: lease.version.name,
              }),
              optionsOf(query),
            ),
          ),
        ),
      );

  /** Reads from the cached lists, or else by `read`. */
  const cachedOr =
    <Query, Result>(
      find: (lists: CachedLists, query: Query) => NonNullable<Result> | null,
      read: QueuedRead<Query, Result>,
    ): QueuedRead<Query, Result> =>
    async (organizationId, query, signal, client) => {
      signal?.throwIfAborted();
      const { organizations } = options.parts();
      const cached = await organizations.cached(organizationId, source, (lists) =>
        find(lists, query),
      );
      return cached ?? read(organizationId, query, signal, client);
    };

  const version = (organizationId: bigint) =>
    options.parts().organizations.version(organizationId, source);

  return {
    list: cachedOr(
      (lists, query) => lists.page(query),
      queued((connection, { generation, lists }, query, { shortcuts }) =>
        listPurchases(connection, generation, query, shortcuts, lists),
      ),
    ),
    get: cachedOr(
      (lists, id) => lists.purchase(id),
      queued(
        (connection, { generation }, id) => findPurchase(connection, generation, id),
        (id) => ({
          isAffectedBy: (changed) => changed.some((each) => each.id === id),
          ...readingBase(),
        }),
      ),
    ),
    report: queued(
      (connection, { generation, version: { asOf } }, query: PurchaseReportQuery, context) =>
        readPurchaseReport(duckdbSource({ connection, generation, context }), query, asOf),
      readingBase,
    ),
    cohorts: queued(
      (connection, { generation, version: { asOf } }, query: PurchaseCohortsQuery, context) =>
        readPurchaseCohorts(duckdbSource({ connection, generation, context }), query, asOf),
      readingBase,
    ),
    export: (organizationId, filters, take, signal) =>
      exports.run(signal, (either) =>
        withParts(async ({ instance, organizations, context: { shortcuts } }) => {
          const connection = await instance.connect();
          const read = () =>
            interruptible(either, connection, () =>
              organizations.use(organizationId, source, connection, async (lease) => {
                const few = await listFew(connection, lease.generation, filters, shortcuts);
                return { few, lease, release: lease.hold() };
              }),
            );
          const reading = organizations.withEviction(read);
          const { few, lease, release } = await reading.finally(() => connection.closeSync());
          const result = few === null ? { files: lease.files } : { purchases: oneBatch(few) };
          try {
            return await take({ result, asOf: lease.version.asOf }, either);
          } catch (error) {
            lease.reportDamage(error);
            throw error;
          } finally {
            await release();
          }
        }),
      ),
    freshness: async (organizationId) => (await version(organizationId))?.asOf ?? null,
    version,
    waitUntilFresh: (organizationId, instant, signal) =>
      waitUntilFresh(organizationId, source, instant, signal),
  };
}

/**
 * All matching purchases; null if there are too many. These get the files: another process can then write the
 * export, at no cost to queries.
 */
async function listFew(
  connection: DuckDBConnection,
  generation: Generation,
  filters: PurchaseFilters,
  shortcuts: Shortcuts,
): Promise<readonly Purchase[] | null> {
  const limit = shortcuts.maxListedPurchases;
  if (limit === 0) return null;
  const query = { filters, limit };
  const { purchases, hasMore } = await listPurchases(connection, generation, query, shortcuts);
  return hasMore ? null : purchases;
}

async function* oneBatch(purchases: readonly Purchase[]): AsyncGenerator<readonly Purchase[]> {
  if (purchases.length > 0) yield purchases;
}
