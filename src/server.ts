import { mkdtempSync, rmdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { ClickHouseEngine } from './engines/clickhouse/engine.ts';
import { createDuckDBEngine } from './engines/duckdb/engine.ts';
import { createFallbackEngine } from './engines/fallback-engine.ts';
import { createPostgresEngine } from './engines/postgres/engine.ts';
import { createExportWriters } from './exports/export-process.ts';
import { createApp } from './http/app.ts';
import { mcp } from './mcp/routes.ts';
import { createApiMetrics } from './metrics/api.ts';
import { type MetricsListener, serveMetrics } from './metrics/listener.ts';
import { createRegistry } from './metrics/registry.ts';
import { page } from './page/routes.ts';
import { createPool } from './postgres/connection/pool.ts';
import { createPostgresQueryPool } from './postgres/connection/query-pool.ts';
import type { DatabaseNeeds } from './postgres/connection/require-database.ts';
import { apiRights } from './postgres/schema/schema.ts';
import { withFileAdvice } from './process/file-advice.ts';
import {
  type ListenAddress,
  listen,
  listenFailure,
  ownAppUrl,
  urlOf,
} from './process/listen-address.ts';
import { warnOfLittleMemory } from './process/memory-limit.ts';
import { warnOfFewOpenFiles } from './process/open-files.ts';
import { OperatorError } from './process/operator-error.ts';
import { makeDataDirectory, requireSameUser, restrictFolders } from './process/private-files.ts';
import { createChangeFeed } from './purchase-store/feed/change-feed.ts';
import { createTickReader } from './purchase-store/ticks/published-tick.ts';
import type { QueryQueueOptions } from './queue/query-queue.ts';
import { createTurnQueue } from './queue/turn-queue.ts';
import { resources } from './resources/resources.ts';
import { apiMemory } from './settings/memory-needs.ts';
import { clickHouseOptions, queryQueueOptions, type Settings } from './settings/settings.ts';

type Server = {
  /** Such as http://127.0.0.1:3000. */
  readonly url: string;
  /** Refuses new connections, finishes running requests, and closes all resources. */
  close(): Promise<void>;
};

/** For queries without a generation. Few, so that key checks are not slowed down. */
const fallbackConnections = 4;

/**
 * One organization has at most this share of the connections for lists. A search takes a processor of Postgres
 * for tens of milliseconds, and key checks need processors too.
 */
const listShare = 4;

/** For the newest generations in ClickHouse, which each request reads. */
const generationConnections = 16;

/** A key check takes a millisecond. After this time it only occupies its connection. */
const keyCheckTimeoutMs = 5_000;

/** After the last response: to record the uses of keys, and to close connections to Postgres. */
export const closeTimeoutMs = 10_000;

/** The API's requirements on its database. */
export function databaseNeeds(settings: Settings): DatabaseNeeds {
  return {
    isPrimary: settings.rateLimitStore === 'postgres',
    rights: apiRights(settings.rateLimitStore),
  };
}

/** Starts the API. Rejects with OperatorError if it cannot listen or write. */
export async function startServer(
  settings: Settings,
  databaseUrl: string,
  log: Logger,
): Promise<Server> {
  const { dataDirectory } = settings;
  requireWritable(dataDirectory);
  warnOfFewOpenFiles(log);
  warnOfLittleMemory(log, apiMemory(settings));
  const onError = (error: Error) => log.warn({ err: error }, 'lost a connection to Postgres');
  const { databasePoolSize, queryTimeoutMs } = settings;
  const openPool = (applicationName: string, max: number, statementTimeoutMs: number) =>
    createPool(databaseUrl, { applicationName, min: 1, max, statementTimeoutMs, onError });
  const database = openPool('crm-data-service api', databasePoolSize, queryTimeoutMs);
  const keyDatabase = openPool('crm-data-service api keys', databasePoolSize, keyCheckTimeoutMs);
  // An export occupies its connection until the client has read all of it.
  const maxFallbacks = fallbackConnections + settings.exportConcurrency;
  const fallbackDatabase = openPool('crm-data-service api purchases', maxFallbacks, queryTimeoutMs);
  const queue = queryQueueOptions(settings);
  const ticks = createTickReader(dataDirectory);
  const duckdb = await createDuckDBEngine({
    ...queue,
    dataDirectory,
    ticks,
    threads: settings.duckdbThreads,
    memoryLimit: settings.duckdbMemoryLimit,
    onError: (organizationId, error) =>
      log.error({ organization: String(organizationId), err: error }, 'cannot serve a generation'),
    onReplacementFailed: (error) =>
      log.error(
        { err: error },
        'cannot replace an invalid DuckDB instance; Postgres serves purchases',
      ),
  });
  const registry = settings.metricsListen === null ? null : createRegistry();
  const clickhouse = await openClickHouseEngine(settings, queue);
  // With ClickHouse, the worker does not update files, so their age has no meaning.
  const oldestServed = () =>
    clickhouse === null
      ? duckdb.current().organizations.state().oldest
      : clickhouse.requested.oldest();
  const lists = createPostgresQueryPool(database, {
    ...queue,
    concurrency: databasePoolSize,
    concurrencyPerOrganization: Math.ceil(databasePoolSize / listShare),
  });
  const postgres = createPostgresEngine(fallbackDatabase, {
    ...queue,
    concurrency: fallbackConnections,
  });
  const keyTurns = createTurnQueue(databasePoolSize);
  const pools = {
    keys: { database: keyDatabase, waiting: () => keyTurns.size },
    lists: { database, waiting: () => lists.state().waiting },
    purchases: { database: fallbackDatabase, waiting: () => postgres.queries.state().waiting },
  };
  const state = { duckdb, clickhouse, postgres, oldestServed, pools };
  const metrics = registry && createApiMetrics(registry, state);
  const withFiles = createFallbackEngine(duckdb, postgres, metrics?.onFallback);
  const purchases = clickhouse === null ? withFiles : createFallbackEngine(clickhouse, withFiles);
  const changes =
    clickhouse === null
      ? createChangeFeed({
          dataDirectory,
          ticks,
          onError: (organizationId, error) =>
            log.error({ organization: String(organizationId), err: error }, 'a log is damaged'),
        })
      : clickhouse.changes;
  const writers = createExportWriters({
    dataDirectory,
    threads: settings.duckdbThreads,
    memoryLimit: settings.exportMemoryLimit,
  });
  const address = { host: settings.host, port: settings.port };
  const app = createApp({
    ...settings,
    resources,
    keyRoutes: mcp,
    services: {
      postgres: lists,
      exportDatabase: fallbackDatabase,
      purchases,
      changes,
      ...writers,
      // With PORT=0, the port is known after the server listens.
      get publicAppUrl() {
        return settings.publicAppUrl ?? ownAppUrl(address);
      },
    },
    keyDatabase,
    keyTurns,
    log,
    oldestTickAsOf: () => oldestServed()?.tickAsOf ?? null,
    ...(clickhouse && { findStoreProblem: clickhouse.findProblem }),
    ...(metrics && { observer: metrics.observer }),
  });
  app.register(page);
  let listener: MetricsListener | null = null;
  const close = async () => {
    await app.close();
    await listener?.close();
    changes?.close();
    await purchases.close();
    await lists.close();
    await Promise.all(Object.values(pools).map(({ database }) => database.end()));
  };
  // Other clients of Postgres may take all its connections later. A failure does not matter.
  await Promise.allSettled([keyDatabase, database].map((pool) => pool.query('select')));
  try {
    if (registry !== null && settings.metricsListen !== null) {
      listener = await serveMetrics(registry, settings.metricsListen, 'METRICS_LISTEN');
      log.info({ url: listener.url }, 'serving metrics');
    }
    await app.listen({ host: settings.host, port: settings.port }).catch((error) => {
      throw listenFailure(error, settings, ['HOST', 'PORT']);
    });
  } catch (error) {
    await close();
    throw error;
  }
  address.port = (app.server.address() as AddressInfo).port;
  return { url: urlOf(address), close };
}

/** Null if DuckDB files have the purchases. */
async function openClickHouseEngine(
  settings: Settings,
  queue: QueryQueueOptions,
): Promise<ClickHouseEngine | null> {
  const options = clickHouseOptions(settings);
  if (options === null) return null;
  // Loaded only here, because other installations do not need the client.
  const { openClickHouse } = await import('./engines/clickhouse/client.ts');
  const { createClickHouseEngine } = await import('./engines/clickhouse/engine.ts');
  const { queryConcurrency, exportConcurrency } = settings;
  // Statistics are two queries at a time, and the newest generation is one.
  const maxConnections = 2 * queryConcurrency + exportConcurrency + generationConnections;
  const clickhouse = openClickHouse({ ...options, maxConnections });
  return createClickHouseEngine(clickhouse, queue);
}

/** Throws if DATA_DIR is not writable, or is another user's. */
export function requireWritable(dataDirectory: string): void {
  requireSameUser(dataDirectory);
  try {
    makeDataDirectory(dataDirectory);
    restrictFolders(dataDirectory);
    const probe = mkdtempSync(join(dataDirectory, '.probe-'));
    rmdirSync(probe);
  } catch (error) {
    throw new OperatorError(
      `Cannot write to DATA_DIR ${dataDirectory}: ${withFileAdvice(error as Error)}`,
    );
  }
}

/** Throws if a port of the API or of metrics is in use, or if two settings name the same one. */
export async function requireFreePorts(settings: Settings): Promise<void> {
  const addresses: [ListenAddress | null, string[]][] = [
    [settings, ['HOST', 'PORT']],
    [settings.metricsListen, ['METRICS_LISTEN']],
    [settings.syncMetricsListen, ['SYNC_METRICS_LISTEN']],
  ];
  const probes: ReturnType<typeof createServer>[] = [];
  try {
    for (const [address, variables] of addresses) {
      if (address === null) continue;
      const probe = createServer();
      await listen(probe, address, variables);
      probes.push(probe);
    }
  } finally {
    for (const probe of probes) probe.close();
  }
}
