import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import {
  type AsOf,
  NoGenerationError,
  type PurchaseEngine,
  type PurchaseReader,
} from '../../domain/purchase-engine.ts';
import type { ClickHouse } from './client.ts';
import { exportPurchases, findPurchase, listPurchases } from './list.ts';
import type { Generation } from './relations.ts';
import { purchaseStats } from './stats.ts';
import { purchaseTimeSeries } from './time-series.ts';

const pollIntervalMs = 50;
const { signal: neverAborted } = new AbortController();

/** Reads the generations that the sync worker publishes in ClickHouse. */
export function createClickHouseEngine(clickhouse: ClickHouse): PurchaseEngine {
  return {
    ...createReader(clickhouse, null),
    forSource: (source) => createReader(clickhouse, source),
    close: () => clickhouse.close(),
  };
}

function createReader(clickhouse: ClickHouse, source: string | null): PurchaseReader {
  const find = async (organizationId: bigint, signal?: AbortSignal) => {
    const generation = await newestGeneration(clickhouse, organizationId, signal);
    return generation === null || (source !== null && generation.source !== source)
      ? null
      : generation;
  };
  const require = async (organizationId: bigint, signal?: AbortSignal): Promise<Generation> => {
    const generation = await find(organizationId, signal);
    if (generation === null) throw new NoGenerationError();
    return generation;
  };
  const run = async <Result>(
    organizationId: bigint,
    signal: AbortSignal | undefined,
    query: (generation: Generation) => Promise<Result>,
  ): Promise<AsOf<Result>> => {
    const generation = await require(organizationId, signal);
    return { result: await query(generation), asOf: generation.asOf };
  };
  return {
    list: (organizationId, query, signal) =>
      run(organizationId, signal, (generation) =>
        listPurchases(clickhouse, generation, query, signal),
      ),
    get: (organizationId, purchaseId, signal) =>
      run(organizationId, signal, (generation) =>
        findPurchase(clickhouse, generation, purchaseId, signal),
      ),
    stats: (organizationId, query, signal) =>
      run(organizationId, signal, (generation) =>
        purchaseStats(clickhouse, generation, query, signal),
      ),
    timeSeries: (organizationId, query, signal) =>
      run(organizationId, signal, (generation) =>
        purchaseTimeSeries(clickhouse, generation, query, signal),
      ),
    export: async (organizationId, filters, take, signal) => {
      const generation = await require(organizationId, signal);
      const purchases = exportPurchases(clickhouse, generation, filters, signal);
      return take({ result: { purchases }, asOf: generation.asOf }, signal ?? neverAborted);
    },
    freshness: async (organizationId) => (await find(organizationId))?.asOf ?? null,
    version: async (organizationId) => {
      const generation = await find(organizationId);
      if (generation === null) return null;
      return { name: `${generation.load}-${generation.batch}`, asOf: generation.asOf };
    },
    waitUntilFresh: async (organizationId, instant, signal) => {
      while ((await require(organizationId, signal)).asOf < instant) {
        await sleep(pollIntervalMs, undefined, { signal });
      }
    },
  };
}

async function newestGeneration(
  clickhouse: ClickHouse,
  organizationId: bigint,
  signal?: AbortSignal,
): Promise<Generation | null> {
  const [row] = await clickhouse.query(
    sql`
      select load_id, batch, as_of, source from generation
      where organization_id = ${organizationId} order by number desc limit 1`,
    signal,
  );
  if (row === undefined) return null;
  const [load, batch, asOf, source] = row as [string, string, string, string];
  return { organizationId, load: BigInt(load), batch: BigInt(batch), asOf: BigInt(asOf), source };
}
