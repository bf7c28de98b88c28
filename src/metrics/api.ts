import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ClickHouseEngine } from '../engines/clickhouse/engine.ts';
import type { DuckDBEngine } from '../engines/duckdb/engine.ts';
import { unavailabilities } from '../engines/duckdb/serving/organization-files.ts';
import type { PostgresEngine } from '../engines/postgres/engine.ts';
import type { ServedInstants } from '../engines/served-instants.ts';
import { cacheResults, exportOutcomes, type HttpObserver, limits } from '../http/observer.ts';
import type { Database } from '../postgres/connection/pool.ts';
import { addDuckDBMemory } from './duckdb-memory.ts';
import { addGauge, addZeros, durationBuckets } from './registry.ts';

/** State that is read at each scrape. */
export type ApiState = {
  readonly duckdb: Pick<DuckDBEngine, 'current'>;
  readonly clickhouse: Pick<ClickHouseEngine, 'queries'> | null;
  readonly postgres: Pick<PostgresEngine, 'queries'>;
  /** The earliest instants of the organizations that are served; null if none are. */
  readonly oldestServed: () => ServedInstants | null;
  /** The connection pools by what they serve, and the requests that wait in the queue of each. */
  readonly pools: Readonly<
    Record<
      'keys' | 'lists' | 'purchases',
      { readonly database: Database; readonly waiting: () => number }
    >
  >;
};

type ApiMetrics = {
  readonly observer: HttpObserver;
  /** Counts a query of purchases that Postgres serves. */
  onFallback(organizationId: bigint, isOutdated: boolean): void;
};

const reasons = [...unavailabilities, 'outdated'] as const;

/** Adds the metrics of the API. No label names an organization, a key or a client. */
export function createApiMetrics(registry: Registry, state: ApiState): ApiMetrics {
  addState(registry, state);
  const fallbacks = new Counter({
    name: 'crm_postgres_fallbacks_total',
    help: 'Queries of purchases that Postgres served, by the reason why the files were not used',
    labelNames: ['reason'],
    registers: [registry],
  });
  addZeros(fallbacks, 'reason', reasons);
  return {
    observer: { ...createRequestMetrics(registry), ...createExportMetrics(registry) },
    onFallback(organizationId, isOutdated) {
      const { organizations } = state.duckdb.current();
      const reason = isOutdated ? 'outdated' : organizations.unavailability(organizationId);
      fallbacks.inc({ reason });
    },
  };
}

type RequestObserver = Pick<HttpObserver, 'cacheRead' | 'keyFailed' | 'limited' | 'responded'>;

function createRequestMetrics(registry: Registry): RequestObserver {
  const registers = [registry];
  const durations = new Histogram({
    name: 'crm_http_request_duration_seconds',
    help: 'Time from a request to the end of its response, by route pattern and status',
    labelNames: ['route', 'status'],
    buckets: durationBuckets,
    registers,
  });
  const limited = new Counter({
    name: 'crm_limited_requests_total',
    help: 'Requests that were refused with 429, by limit',
    labelNames: ['limit'],
    registers,
  });
  const failedKeys = new Counter({
    name: 'crm_failed_keys_total',
    help: 'Requests without a valid API key',
    registers,
  });
  const cacheReads = new Counter({
    name: 'crm_response_cache_reads_total',
    help: 'Reads of the response cache: cached, shared with a concurrent request, or missing',
    labelNames: ['result'],
    registers,
  });
  addZeros(limited, 'limit', limits);
  addZeros(cacheReads, 'result', cacheResults);
  return {
    responded: ({ route, status, milliseconds }) =>
      durations.observe({ route, status }, milliseconds / 1000),
    limited: (limit) => limited.inc({ limit }),
    keyFailed: () => failedKeys.inc(),
    cacheRead: (result) => cacheReads.inc({ result }),
  };
}

type ExportObserver = Pick<HttpObserver, 'exportEnded' | 'exportSent' | 'exportStarted'>;

function createExportMetrics(registry: Registry): ExportObserver {
  const registers = [registry];
  const running = new Gauge({
    name: 'crm_exports_running',
    help: 'Exports that are being written or sent',
    registers,
  });
  const sent = new Counter({
    name: 'crm_export_bytes_total',
    help: 'Bytes of exports, before compression',
    registers,
  });
  const durations = new Histogram({
    name: 'crm_export_duration_seconds',
    help: 'Duration of exports whose response began, by outcome',
    labelNames: ['outcome'],
    buckets: [0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800],
    registers,
  });
  for (const outcome of exportOutcomes) durations.zero({ outcome });
  return {
    exportStarted: () => running.inc(),
    exportSent: (bytes) => sent.inc(bytes),
    exportEnded(outcome, milliseconds) {
      running.dec();
      durations.observe({ outcome }, milliseconds / 1000);
    },
  };
}

function addState(
  registry: Registry,
  { duckdb, clickhouse, postgres, oldestServed, pools }: ApiState,
): void {
  addGauge(
    registry,
    'crm_queries',
    'Purchase queries that run, or wait in the queue',
    ['state'],
    () => {
      const queues = [duckdb.current(), postgres, ...(clickhouse === null ? [] : [clickhouse])];
      const states = queues.map(({ queries }) => queries.state());
      return (['running', 'waiting'] as const).map((state) => [
        { state },
        states.reduce((sum, queries) => sum + queries[state], 0),
      ]);
    },
  );
  addGauge(
    registry,
    'crm_open_organizations',
    'Organizations whose purchase files are open',
    [],
    () => [[{}, duckdb.current().organizations.state().open]],
  );
  addGauge(
    registry,
    'crm_data_age_seconds',
    'Age of the oldest X-Data-As-Of of the organizations that are served; none if none is',
    [],
    () => {
      const oldest = oldestServed();
      return oldest === null
        ? []
        : [[{}, Math.max(0, Date.now() / 1000 - Number(oldest.asOf) / 1e6)]];
    },
  );
  addGauge(registry, 'crm_postgres_connections', 'Connections to Postgres', ['pool', 'state'], () =>
    Object.entries(pools).flatMap(
      ([
        pool,
        {
          database: { idleCount, totalCount },
        },
      ]) => [
        [{ pool, state: 'idle' }, idleCount],
        [{ pool, state: 'busy' }, totalCount - idleCount],
      ],
    ),
  );
  addGauge(
    registry,
    'crm_postgres_waiting_requests',
    'Requests that wait for a connection to Postgres',
    ['pool'],
    () =>
      Object.entries(pools).map(([pool, { database, waiting }]) => [
        { pool },
        database.waitingCount + waiting(),
      ]),
  );
  addDuckDBMemory(registry, () => duckdb.current().instance);
}
