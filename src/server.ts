import { once } from 'node:events';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { createDuckDBEngine } from './engines/duckdb/engine.ts';
import { firstAvailable } from './engines/first-available.ts';
import { createPostgresEngine } from './engines/postgres/engine.ts';
import { createExportWriter } from './exports/export-process.ts';
import { createApp } from './http/app.ts';
import { OperatorError } from './operator-error.ts';
import { createPool } from './postgres/pool.ts';
import type { DatabaseNeeds } from './postgres/require-database.ts';
import { apiRights } from './postgres/schema.ts';
import { closePrivateFolders, makeDataDirectory } from './private-files.ts';
import { resources } from './resources/resources.ts';
import type { Settings } from './settings.ts';

export type Server = {
  /** Where it listens, such as http://127.0.0.1:3000. */
  readonly url: string;
  /** Refuses new requests, finishes those that are running, lets go of everything. */
  close(): Promise<void>;
};

// Purchases of an organization that has no generation yet: few questions at a
// time, so that they cannot crowd out the key checks.
const fallbackConnections = 4;

/** A key check takes a millisecond. One that takes so long occupies its connection in vain. */
const keyCheckTimeoutMs = 5_000;

/** What the API needs of its database. */
export function databaseNeeds(settings: Settings): DatabaseNeeds {
  return {
    isPrimary: settings.rateLimitStore === 'postgres',
    rights: apiRights(settings.rateLimitStore),
    statementTimeoutMs: settings.queryTimeoutMs,
  };
}

/** Starts the API. Rejects with OperatorError where it cannot listen or write. */
export async function startServer(
  settings: Settings,
  databaseUrl: string,
  log: Logger,
): Promise<Server> {
  const { dataDirectory } = settings;
  requireWritable(dataDirectory);
  const onError = (error: Error) => log.warn({ err: error }, 'lost a connection to Postgres');
  const database = createPool(databaseUrl, {
    max: settings.databasePoolSize,
    applicationName: 'crm-data-service api',
    statementTimeoutMs: settings.queryTimeoutMs,
    onError,
  });
  const keyDatabase = createPool(databaseUrl, {
    max: settings.databasePoolSize,
    applicationName: 'crm-data-service api keys',
    statementTimeoutMs: keyCheckTimeoutMs,
    onError,
  });
  const fallbackDatabase = createPool(databaseUrl, {
    // An export keeps its connection for as long as its reader takes.
    max: fallbackConnections + settings.exportConcurrency,
    applicationName: 'crm-data-service api purchases',
    statementTimeoutMs: settings.queryTimeoutMs,
    onError,
  });
  const duckdb = await createDuckDBEngine({
    dataDirectory,
    threads: settings.duckdbThreads,
    memoryLimit: settings.duckdbMemoryLimit,
    concurrency: settings.queryConcurrency,
    queueLimit: settings.queryQueueLimit,
    queueLimitPerClient: settings.queryQueueLimitPerKey,
    timeoutMs: settings.queryTimeoutMs,
    onError: (organizationId, error) =>
      log.error({ organization: String(organizationId), err: error }, 'cannot serve a generation'),
  });
  const purchases = firstAvailable(duckdb, createPostgresEngine(fallbackDatabase));
  const writeExport = createExportWriter({
    dataDirectory,
    threads: settings.duckdbThreads,
    memoryLimit: settings.exportMemoryLimit,
  });
  const app = createApp({
    resources,
    services: { database, purchases, writeExport, publicAppUrl: settings.publicAppUrl },
    keyDatabase,
    rateLimitPerMinute: settings.rateLimitPerMinute,
    failedKeysPerMinute: settings.failedKeysPerMinute,
    rateLimitStore: settings.rateLimitStore,
    maxSilenceMs: settings.databaseSilenceMs,
    trustedProxies: settings.trustedProxies,
    responseCacheBytes: settings.responseCacheBytes,
    corsOrigins: settings.corsOrigins,
    freshnessWaitMs: settings.freshnessWaitMs,
    exports: { perKey: settings.exportsPerKey, inAll: settings.exportConcurrency },
    stalledAfterMs: settings.queryTimeoutMs,
    connectionsPerAddress: settings.connectionsPerAddress,
    unreadBytesPerKey: settings.unreadBytesPerKey,
    log,
  });
  const close = async () => {
    await app.close();
    await purchases.close();
    await Promise.all([keyDatabase, database, fallbackDatabase].map((pool) => pool.end()));
  };
  // The first request finds an open connection. Where this fails, it opens one itself.
  await keyDatabase.query('select').catch(() => {});
  try {
    await app.listen({ host: settings.host, port: settings.port });
  } catch (error) {
    await close();
    throw listenFailure(error, settings);
  }
  const { port } = app.server.address() as AddressInfo;
  const host = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  return { url: `http://${host}:${port}`, close };
}

/** Rejects a DATA_DIR that nothing can be written to, before anything is started. */
export function requireWritable(dataDirectory: string): void {
  try {
    makeDataDirectory(dataDirectory);
    closePrivateFolders(dataDirectory);
    const probe = mkdtempSync(join(dataDirectory, '.probe-'));
    rmdirSync(probe);
  } catch (error) {
    const { message } = error as Error;
    throw new OperatorError(`Cannot write to DATA_DIR ${dataDirectory}: ${message}`);
  }
}

/** Rejects a port that is taken, before anything is started. */
export async function requireFreePort(settings: Settings): Promise<void> {
  const probe = createServer();
  try {
    await once(probe.listen(settings.port, settings.host), 'listening');
  } catch (error) {
    throw listenFailure(error, settings);
  } finally {
    probe.close();
  }
}

function listenFailure(error: unknown, { host, port }: Settings): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') {
    return new OperatorError(`Port ${port} of ${host} is in use. Set PORT to another one.`);
  }
  if (code === undefined || !/^E[A-Z]+$/.test(code)) return error;
  return new OperatorError(`Cannot listen on ${host}:${port}: ${message}. Set HOST and PORT.`);
}
