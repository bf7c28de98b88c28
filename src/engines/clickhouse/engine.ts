import { ClickHouseError } from '@clickhouse/client';
import sql from 'sql-template-tag';
import type { ChangeFeed } from '../../domain/purchase-changes.ts';
import {
  NoGenerationError,
  type PurchaseEngine,
  type PurchaseReader,
  type QueuedRead,
  StoreUnavailableError,
} from '../../domain/purchase-engine.ts';
import { createWaitUntilFresh, type WaitUntilFresh } from '../../domain/wait-until-fresh.ts';
import { servedSourceOf } from '../../purchase-store/ticks/published.ts';
import {
  createQueryQueue,
  type QueryQueue,
  type QueryQueueOptions,
} from '../../queue/query-queue.ts';
import { createAbortableTasks } from '../abortable-tasks.ts';
import { readPurchaseCohorts } from '../report/cohorts.ts';
import { readPurchaseReport } from '../report/report.ts';
import { createChangeFeed } from './change-feed.ts';
import { type ClickHouse, lacksTables } from './client.ts';
import { type FindGeneration, type LoadGeneration, newestGeneration } from './generation.ts';
import { exportPurchases, findPurchase, listPurchases } from './list.ts';
import {
  createRequestedOrganizations,
  type RequestedOrganizations,
} from './requested-organizations.ts';
import { table } from './schema.ts';
import { clickHouseSource } from './source.ts';

/** The engine with its change feed, and its state for metrics and probes. */
export type ClickHouseEngine = PurchaseEngine & {
  readonly queries: Pick<QueryQueue, 'state'>;
  readonly requested: Pick<RequestedOrganizations, 'oldest'>;
  readonly changes: ChangeFeed;
  /** Why ClickHouse cannot answer queries now; null if it can. */
  findProblem(): Promise<string | null>;
};

/** A probe of readiness reads one row, and its client rarely waits longer. */
const probeTimeoutMs = 2_000;

/** Reads the generations that the sync worker publishes in ClickHouse. `close` closes the client. */
export function createClickHouseEngine(
  clickhouse: ClickHouse,
  options: QueryQueueOptions,
): ClickHouseEngine {
  const queries = createQueryQueue(options);
  const requested = createRequestedOrganizations();
  const exports = createAbortableTasks();
  const find: FindGeneration = async (organizationId, source, signal) => {
    const deadline = AbortSignal.timeout(options.timeoutMs);
    const either = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    const reading = newestGeneration(clickhouse, organizationId, either);
    const generation = await reading.catch((error) => {
      if (error !== deadline.reason) throw error;
      throw new StoreUnavailableError(`ClickHouse did not respond in ${options.timeoutMs} ms`);
    });
    if (generation === null) return null;
    if (source !== null && servedSourceOf(generation) !== source) return null;
    requested.record(organizationId, generation);
    return generation;
  };
  const newestAsOf = async (organizationId: bigint, source: string | null, signal: AbortSignal) =>
    required(await find(organizationId, source, signal)).asOf;
  const waitUntilFresh = createWaitUntilFresh(newestAsOf);
  const readerOptions = { clickhouse, queries, exports, find, waitUntilFresh };
  const changes = createChangeFeed({ clickhouse, queries, find });
  return {
    ...createReader(readerOptions, null),
    forSource: (source) => createReader(readerOptions, source),
    queries,
    requested,
    changes,
    findProblem: () => findProblem(clickhouse),
    async close() {
      await exports.close();
      await queries.close();
      await clickhouse.close();
    },
  };
}

async function findProblem(clickhouse: ClickHouse): Promise<string | null> {
  const statement = sql`select 1 from ${table.tick} limit 1`;
  try {
    await clickhouse.query(statement, AbortSignal.timeout(probeTimeoutMs));
    return null;
  } catch (error) {
    // The files or Postgres serve purchases until a worker creates the tables.
    if (lacksTables(error)) return null;
    const refusal = error instanceof ClickHouseError ? error : (error as Error).cause;
    return refusal instanceof ClickHouseError
      ? `ClickHouse refuses queries: ${refusal.type ?? refusal.code}`
      : 'ClickHouse does not respond';
  }
}

type ReaderOptions = {
  readonly clickhouse: ClickHouse;
  readonly queries: QueryQueue;
  readonly exports: ReturnType<typeof createAbortableTasks>;
  readonly find: FindGeneration;
  readonly waitUntilFresh: WaitUntilFresh;
};

function createReader(options: ReaderOptions, source: string | null): PurchaseReader {
  const { clickhouse, queries, exports, find, waitUntilFresh } = options;

  const queued =
    <Query, Result>(
      read: (
        clickhouse: ClickHouse,
        generation: LoadGeneration,
        query: Query,
        signal: AbortSignal,
      ) => Promise<Result>,
    ): QueuedRead<Query, Result> =>
    (organizationId, query, signal, client) =>
      queries.run({ organizationId, name: client }, signal, async (either) => {
        const generation = required(await find(organizationId, source, either));
        const result = await read(clickhouse, generation, query, either);
        return { result, asOf: generation.asOf, version: versionName(generation) };
      });

  return {
    list: queued(listPurchases),
    get: queued(findPurchase),
    report: queued((_client, generation, query, signal) =>
      readPurchaseReport(clickHouseSource(clickhouse, generation, signal), query, generation.asOf),
    ),
    cohorts: queued((_client, generation, query, signal) =>
      readPurchaseCohorts(clickHouseSource(clickhouse, generation, signal), query, generation.asOf),
    ),
    export: (organizationId, filters, take, signal) =>
      exports.run(signal, async (either) => {
        const generation = required(await find(organizationId, source, either));
        const purchases = exportPurchases(clickhouse, generation, filters, either);
        return take({ result: { purchases }, asOf: generation.asOf }, either);
      }),
    freshness: async (organizationId) => (await find(organizationId, source))?.asOf ?? null,
    version: async (organizationId) => {
      const generation = await find(organizationId, source);
      return generation && { name: versionName(generation), asOf: generation.asOf };
    },
    waitUntilFresh: (organizationId, instant, signal) =>
      waitUntilFresh(organizationId, source, instant, signal),
  };
}

const versionName = ({ name }: LoadGeneration): string => `clickhouse ${name}`;

function required(generation: LoadGeneration | null): LoadGeneration {
  if (generation === null) throw new NoGenerationError();
  return generation;
}
