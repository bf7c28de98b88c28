import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { parseDuration } from '../domain/duration.ts';
import { wholeNumber } from '../domain/whole-number.ts';
import { defaultShortcuts } from '../duckdb/shortcuts.ts';
import { withFileAdvice } from '../process/file-advice.ts';
import { OperatorError } from '../process/operator-error.ts';
import {
  isOrigin,
  isPlainAddress,
  isServerAddress,
  list,
  listenAddress,
  mebibytes,
  name,
  seconds,
  size,
} from './setting-values.ts';

/** The environment variable and the schema of each setting. Only this file reads the environment. */
const definitions = {
  /** Undefined: the embedded Postgres of `dataDirectory`. */
  databaseUrl: [
    'DATABASE_URL',
    z
      .string()
      .regex(
        /^postgres(ql)?:\/\/\S+$/,
        'must look like postgres://user:password@host:5432/database',
      )
      .optional(),
  ],
  databasePoolSize: ['DATABASE_POOL_SIZE', wholeNumber(1, 1000, 10)],
  /** How long a starting process waits for Postgres. */
  databaseWaitMs: ['DATABASE_WAIT_SECONDS', seconds(0, 86_400, 60)],
  /** A key check fails if Postgres has not responded at all for this time. */
  databaseSilenceMs: ['DATABASE_SILENCE_MS', wholeNumber(100, 60_000, 700)],
  /** Where purchases are read from and the worker writes them. */
  purchasesEngine: [
    'PURCHASES_ENGINE',
    z.enum(['duckdb', 'clickhouse'], 'must be duckdb or clickhouse').default('duckdb'),
  ],
  clickHouseUrl: [
    'CLICKHOUSE_URL',
    z.string().refine(isServerAddress, 'must look like https://user:password@host:8443').optional(),
  ],
  clickHouseUser: ['CLICKHOUSE_USER', z.string().optional()],
  clickHousePassword: ['CLICKHOUSE_PASSWORD', z.string().optional()],
  clickHouseDatabase: ['CLICKHOUSE_DATABASE', name().default('default')],
  /** Without a cluster, the tables are neither replicated nor distributed. */
  clickHouseCluster: ['CLICKHOUSE_CLUSTER', name().optional()],
  dataDirectory: [
    'DATA_DIR',
    z
      .string()
      .default('data')
      .transform((directory) => resolve(directory)),
  ],
  host: ['HOST', z.string().default('127.0.0.1')],
  port: ['PORT', wholeNumber(0, 65_535, 3000)],
  /** Where the API and the worker serve their metrics; null: nowhere. */
  metricsListen: ['METRICS_LISTEN', listenAddress()],
  syncMetricsListen: ['SYNC_METRICS_LISTEN', listenAddress()],
  /** /readyz fails if the worker has published nothing for longer; 0: at any age. */
  readyMaxLagMs: ['READY_MAX_LAG_SECONDS', seconds(0, 86_400, 0)],
  /** The base of `html_url`, without a slash at its end. Undefined: the API's own page. */
  publicAppUrl: [
    'PUBLIC_APP_URL',
    z
      .string()
      .refine(isPlainAddress, 'must be an http or https address such as https://app.example.com')
      .transform((address) => address.replace(/\/+$/, ''))
      .optional(),
  ],
  logLevel: [
    'LOG_LEVEL',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  ],
  rateLimitPerMinute: ['RATE_LIMIT_PER_MINUTE', wholeNumber(1, 1_000_000, 600)],
  /** `postgres` if several API processes share the limits. */
  rateLimitStore: [
    'RATE_LIMIT_STORE',
    z.enum(['memory', 'postgres'], 'must be memory or postgres').default('memory'),
  ],
  /** Requests without a valid key from one address. */
  failedKeysPerMinute: ['FAILED_KEYS_PER_MINUTE', wholeNumber(1, 1_000_000, 600)],
  /** Addresses or ranges of proxies whose X-Forwarded-For is used. */
  trustedProxies: [
    'TRUSTED_PROXIES',
    list().pipe(
      z.array(
        z.union(
          [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()],
          'must be IP addresses or ranges, by commas',
        ),
      ),
    ),
  ],
  /** Without origins, CORS is off. */
  corsOrigins: [
    'CORS_ORIGINS',
    list().refine(
      (origins) => origins.every(isOrigin),
      'must be origins such as https://app.example.com, by commas',
    ),
  ],
  /** Of each process that opens DuckDB files. */
  duckdbMemoryLimit: ['DUCKDB_MEMORY_LIMIT', size('1GiB')],
  duckdbThreads: ['DUCKDB_THREADS', wholeNumber(1, 256, availableParallelism())],
  /** DuckDB queries that run at the same time. */
  queryConcurrency: ['QUERY_CONCURRENCY', wholeNumber(1, 100, 3)],
  /** Queries in the queue, of all API keys and of one. */
  queryQueueLimit: ['QUERY_QUEUE_LIMIT', wholeNumber(0, 100_000, 500)],
  queryQueueLimitPerKey: ['QUERY_QUEUE_LIMIT_PER_KEY', wholeNumber(0, 100_000, 100)],
  threadPoolSize: ['UV_THREADPOOL_SIZE', wholeNumber(1, 1024, 4)],
  /** The size of the response cache; 0 disables the cache. */
  responseCacheBytes: [
    'RESPONSE_CACHE_MIB',
    mebibytes(0, 65_536, defaultShortcuts.responseCacheBytes / 2 ** 20),
  ],
  /** Concurrent exports of one API key, and in all. */
  exportsPerKey: ['EXPORTS_PER_KEY', wholeNumber(1, 100, 2)],
  exportConcurrency: ['EXPORT_CONCURRENCY', wholeNumber(1, 1000, 4)],
  /** Of each running export. */
  exportMemoryLimit: ['EXPORT_MEMORY_LIMIT', size('256MiB')],
  /** Connections of one remote address. Trusted proxies have no limit. */
  connectionsPerAddress: ['CONNECTIONS_PER_ADDRESS', wholeNumber(1, 1_000_000, 512)],
  /** Response bytes that the clients of one API key have not read. */
  unreadBytesPerKey: ['UNREAD_MIB_PER_KEY', mebibytes(1, 65_536, 64)],
  queryTimeoutMs: ['QUERY_TIMEOUT_MS', wholeNumber(100, 600_000, 30_000)],
  /** The maximum wait for X-Min-Data-As-Of. */
  freshnessWaitMs: ['MIN_DATA_AS_OF_WAIT_MS', wholeNumber(100, 60_000, 5_000)],
  /** How long a stopping API waits for its responses, and a stopping worker for its statements. */
  shutdownTimeoutMs: ['SHUTDOWN_TIMEOUT_SECONDS', seconds(1, 86_400, 60)],
  syncPollIntervalMs: ['SYNC_POLL_INTERVAL_MS', wholeNumber(10, 60_000, 100)],
  /** Organizations that the sync worker updates at the same time. */
  syncConcurrency: ['SYNC_CONCURRENCY', wholeNumber(1, 64, 2)],
  /** How long replaced logs stay for the change feed, and the bytes that those of an organization take. */
  changesRetentionMs: [
    'CHANGES_RETENTION',
    z
      .string()
      .default('7d')
      .transform(parseDuration)
      .pipe(z.number('must be a time such as 12h or 7d')),
  ],
  changesMaxBytes: ['CHANGES_MAX_MIB', mebibytes(0, 1_048_576, 512)],
  /** The interval of verifications of an organization; null disables them. */
  verifyEveryMs: [
    'VERIFY_EVERY',
    z
      .string()
      .default('24h')
      .refine(
        (text) => text === 'off' || parseDuration(text) !== null,
        'must be off or a time such as 30m, 6h or 1d',
      )
      .transform((text) => (text === 'off' ? null : parseDuration(text))),
  ],
} as const satisfies Readonly<Record<string, readonly [string, z.ZodType]>>;

export type Settings = {
  readonly [Name in keyof typeof definitions]: z.output<(typeof definitions)[Name][1]>;
};

/** Throws an OperatorError that names an invalid variable. */
export function readSettings(environment: NodeJS.ProcessEnv = process.env): Settings {
  const settings = Object.fromEntries(
    Object.entries(definitions).map(([name, [variable, schema]]) => [
      name,
      readVariable(variable, schema, environment[variable]),
    ]),
  ) as Settings;
  requireClickHouseUrl(settings);
  const { queryConcurrency, threadPoolSize } = settings;
  if (queryConcurrency < threadPoolSize) return settings;
  throw new OperatorError(
    `QUERY_CONCURRENCY is ${queryConcurrency} but must be less than UV_THREADPOOL_SIZE, ` +
      `which is ${threadPoolSize}: each query occupies one of its threads.`,
  );
}

function requireClickHouseUrl({ purchasesEngine, clickHouseUrl }: Settings): void {
  if (purchasesEngine === 'duckdb' || clickHouseUrl !== undefined) return;
  throw new OperatorError('PURCHASES_ENGINE is clickhouse, but CLICKHOUSE_URL is not set.');
}

/** The options of ClickHouse's client; null if DuckDB files have the purchases. */
export function clickHouseOptions(settings: Settings) {
  if (settings.purchasesEngine === 'duckdb') return null;
  return {
    url: settings.clickHouseUrl ?? '',
    user: settings.clickHouseUser,
    password: settings.clickHousePassword,
    database: settings.clickHouseDatabase,
    cluster: settings.clickHouseCluster,
    timeoutMs: settings.queryTimeoutMs,
  };
}

/** The options of a queue of queries. */
export const queryQueueOptions = (settings: Settings) => ({
  concurrency: settings.queryConcurrency,
  queueLimit: settings.queryQueueLimit,
  queueLimitPerClient: settings.queryQueueLimitPerKey,
  timeoutMs: settings.queryTimeoutMs,
});

/** Variables with passwords. */
const secretVariables = ['DATABASE_URL', 'CLICKHOUSE_URL', 'CLICKHOUSE_PASSWORD'];

function readVariable(variable: string, schema: z.ZodType, text: string | undefined): unknown {
  const parsed = schema.safeParse(text === '' ? undefined : text);
  if (parsed.success) return parsed.data;
  const value = secretVariables.includes(variable) ? '' : ` is ${JSON.stringify(text)} but`;
  throw new OperatorError(`${variable}${value} ${parsed.error.issues[0]?.message}`);
}

/** The file with the URL of the embedded Postgres while `npm start` runs. */
export function embeddedUrlFile(dataDirectory: string): string {
  return join(dataDirectory, 'postgres.url');
}

/** The environment of a child process, with another DATABASE_URL or none. */
export function childEnvironment(databaseUrl: string | undefined): NodeJS.ProcessEnv {
  const { DATABASE_URL: _own, ...environment } = process.env;
  return databaseUrl === undefined ? environment : { ...environment, DATABASE_URL: databaseUrl };
}

/** DATABASE_URL, or the embedded Postgres that `npm start` keeps running. */
export function requireDatabaseUrl(settings: Settings): string {
  if (settings.databaseUrl !== undefined) return settings.databaseUrl;
  const file = embeddedUrlFile(settings.dataDirectory);
  const url = readIfPresent(file).trim();
  if (url !== '') return url;
  throw new OperatorError(
    'No database: DATABASE_URL is not set, and no `crm-data-service start` is running one for ' +
      `${settings.dataDirectory}. Set DATABASE_URL=postgres://user:password@host:5432/database.`,
  );
}

function readIfPresent(file: string): string {
  try {
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  } catch (error) {
    throw new OperatorError(`Cannot read ${file}: ${withFileAdvice(error as Error)}`);
  }
}
