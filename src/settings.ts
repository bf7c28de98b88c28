import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { parseDuration } from './domain/duration.ts';
import { OperatorError } from './operator-error.ts';

/** Every environment variable the service reads; the only place that reads them. */
const variables = z.object({
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\/\S+$/, 'must look like postgres://user:password@host:5432/database')
    .optional(),
  DATABASE_POOL_SIZE: wholeNumber(1, 1000, 10),
  DATABASE_WAIT_SECONDS: wholeNumber(0, 86_400, 60),
  DATABASE_SILENCE_MS: wholeNumber(100, 60_000, 700),
  DATA_DIR: z
    .string()
    .default('data')
    .transform((directory) => resolve(directory)),
  HOST: z.string().default('127.0.0.1'),
  PORT: wholeNumber(0, 65_535, 3000),
  PUBLIC_APP_URL: z
    .string()
    .refine(isPlainAddress, 'must be an http or https address such as https://app.example.com')
    .transform((address) => address.replace(/\/+$/, ''))
    .default('http://127.0.0.1:3000/app'),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  RATE_LIMIT_PER_MINUTE: wholeNumber(1, 1_000_000, 600),
  RATE_LIMIT_STORE: z.enum(['memory', 'postgres'], 'must be memory or postgres').default('memory'),
  FAILED_KEYS_PER_MINUTE: wholeNumber(1, 1_000_000, 600),
  TRUSTED_PROXIES: z
    .string()
    .transform((list) => list.split(',').map((address) => address.trim()))
    .refine((list) => list.every(isAddressOrRange), 'must be IP addresses or ranges, by commas')
    .default([]),
  CORS_ORIGINS: z
    .string()
    .transform((list) => list.split(',').map((origin) => origin.trim()))
    .refine(
      (list) => list.every(isOrigin),
      'must be origins such as https://app.example.com, by commas',
    )
    .default([]),
  DUCKDB_MEMORY_LIMIT: size('1GiB'),
  DUCKDB_THREADS: wholeNumber(1, 256, availableParallelism()),
  QUERY_CONCURRENCY: wholeNumber(1, 100, 3),
  QUERY_QUEUE_LIMIT: wholeNumber(0, 100_000, 500),
  QUERY_QUEUE_LIMIT_PER_KEY: wholeNumber(0, 100_000, 100),
  UV_THREADPOOL_SIZE: wholeNumber(1, 1024, 4),
  ANSWER_CACHE_MIB: wholeNumber(0, 65_536, 64),
  EXPORTS_PER_KEY: wholeNumber(1, 100, 2),
  EXPORT_CONCURRENCY: wholeNumber(1, 1000, 4),
  EXPORT_MEMORY_LIMIT: size('256MiB'),
  CONNECTIONS_PER_ADDRESS: wholeNumber(1, 1_000_000, 512),
  UNREAD_MIB_PER_KEY: wholeNumber(1, 65_536, 64),
  QUERY_TIMEOUT_MS: wholeNumber(100, 600_000, 30_000),
  MIN_DATA_AS_OF_WAIT_MS: wholeNumber(100, 60_000, 5_000),
  SYNC_POLL_INTERVAL_MS: wholeNumber(10, 60_000, 100),
  SYNC_CONCURRENCY: wholeNumber(1, 64, 2),
  VERIFY_EVERY: z
    .string()
    .default('24h')
    .refine(
      (text) => text === 'off' || parseDuration(text) !== null,
      'must be off or a time such as 30m, 6h or 1d',
    )
    .transform((text) => (text === 'off' ? null : parseDuration(text))),
});

export type Settings = {
  /** Undefined: start, or look for, the embedded Postgres of `dataDirectory`. */
  readonly databaseUrl: string | undefined;
  readonly databasePoolSize: number;
  /** How long a process that starts waits for Postgres. */
  readonly databaseWaitMs: number;
  /** After which a key check is given up if Postgres has answered nothing. */
  readonly databaseSilenceMs: number;
  readonly dataDirectory: string;
  readonly host: string;
  readonly port: number;
  /** What `html_url` begins with; no slash at its end. */
  readonly publicAppUrl: string;
  readonly logLevel: string;
  readonly rateLimitPerMinute: number;
  /** `postgres` where several API processes share the limit. */
  readonly rateLimitStore: 'memory' | 'postgres';
  /** By address. */
  readonly failedKeysPerMinute: number;
  /** Whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may read answers; none: CORS is off. */
  readonly corsOrigins: readonly string[];
  /** A size as DuckDB writes it, for each process that opens DuckDB files. */
  readonly duckdbMemoryLimit: string;
  readonly duckdbThreads: number;
  /** Questions that the API puts to DuckDB at the same time. */
  readonly queryConcurrency: number;
  /** Questions that may wait for DuckDB, of all keys and of one. */
  readonly queryQueueLimit: number;
  readonly queryQueueLimitPerKey: number;
  /** What finished answers about purchases may take, bytes; 0 remembers none. */
  readonly responseCacheBytes: number;
  /** Exports that run at the same time, of one key and in all. */
  readonly exportsPerKey: number;
  readonly exportConcurrency: number;
  /** A size as DuckDB writes it, for each export that runs. */
  readonly exportMemoryLimit: string;
  /** Connections of one remote address; those of trusted proxies are not limited. */
  readonly connectionsPerAddress: number;
  /** Response bytes that the clients of one API key may leave unread. */
  readonly unreadBytesPerKey: number;
  readonly queryTimeoutMs: number;
  /** How long X-Min-Data-As-Of may keep a request waiting. */
  readonly freshnessWaitMs: number;
  readonly syncPollIntervalMs: number;
  /** Organizations that the sync worker brings up to date at the same time. */
  readonly syncConcurrency: number;
  /** How old the last verification of an organization may become; null: the worker verifies none. */
  readonly verifyEveryMs: number | null;
};

/** Rejects what it cannot read with an OperatorError that names the variable. */
export function readSettings(environment: NodeJS.ProcessEnv = process.env): Settings {
  const given = Object.fromEntries(
    Object.keys(variables.shape)
      .map((name) => [name, environment[name]] as const)
      .filter(([, value]) => value !== undefined && value !== ''),
  );
  const parsed = variables.safeParse(given);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const name = String(issue?.path[0]);
    // A connection string holds a password: its value is not repeated.
    const value = name === 'DATABASE_URL' ? '' : ` is ${JSON.stringify(given[name])} but`;
    throw new OperatorError(`${name}${value} ${issue?.message}`);
  }
  const read = parsed.data;
  if (read.QUERY_CONCURRENCY >= read.UV_THREADPOOL_SIZE) {
    throw new OperatorError(
      `QUERY_CONCURRENCY is ${read.QUERY_CONCURRENCY} but must be less than UV_THREADPOOL_SIZE, ` +
        `which is ${read.UV_THREADPOOL_SIZE}: each question occupies one of its threads.`,
    );
  }
  return {
    databaseUrl: read.DATABASE_URL,
    databasePoolSize: read.DATABASE_POOL_SIZE,
    databaseWaitMs: read.DATABASE_WAIT_SECONDS * 1000,
    databaseSilenceMs: read.DATABASE_SILENCE_MS,
    dataDirectory: read.DATA_DIR,
    host: read.HOST,
    port: read.PORT,
    publicAppUrl: read.PUBLIC_APP_URL,
    logLevel: read.LOG_LEVEL,
    rateLimitPerMinute: read.RATE_LIMIT_PER_MINUTE,
    rateLimitStore: read.RATE_LIMIT_STORE,
    failedKeysPerMinute: read.FAILED_KEYS_PER_MINUTE,
    trustedProxies: read.TRUSTED_PROXIES,
    corsOrigins: read.CORS_ORIGINS,
    duckdbMemoryLimit: read.DUCKDB_MEMORY_LIMIT,
    duckdbThreads: read.DUCKDB_THREADS,
    queryConcurrency: read.QUERY_CONCURRENCY,
    queryQueueLimit: read.QUERY_QUEUE_LIMIT,
    queryQueueLimitPerKey: read.QUERY_QUEUE_LIMIT_PER_KEY,
    responseCacheBytes: read.ANSWER_CACHE_MIB * 2 ** 20,
    exportsPerKey: read.EXPORTS_PER_KEY,
    exportConcurrency: read.EXPORT_CONCURRENCY,
    exportMemoryLimit: read.EXPORT_MEMORY_LIMIT,
    connectionsPerAddress: read.CONNECTIONS_PER_ADDRESS,
    unreadBytesPerKey: read.UNREAD_MIB_PER_KEY * 2 ** 20,
    queryTimeoutMs: read.QUERY_TIMEOUT_MS,
    freshnessWaitMs: read.MIN_DATA_AS_OF_WAIT_MS,
    syncPollIntervalMs: read.SYNC_POLL_INTERVAL_MS,
    syncConcurrency: read.SYNC_CONCURRENCY,
    verifyEveryMs: read.VERIFY_EVERY,
  };
}

/** Where `npm start` notes how to reach its embedded Postgres while that runs. */
export function embeddedUrlFile(dataDirectory: string): string {
  return join(dataDirectory, 'postgres.url');
}

/** What a child process is given: this process's own, and the database to use if any. */
export function childEnvironment(databaseUrl: string | undefined): NodeJS.ProcessEnv {
  const { DATABASE_URL: _ours, ...environment } = process.env;
  return databaseUrl === undefined ? environment : { ...environment, DATABASE_URL: databaseUrl };
}

/** DATABASE_URL, or the embedded Postgres that `npm start` keeps running. */
export function requireDatabaseUrl(settings: Settings): string {
  if (settings.databaseUrl !== undefined) return settings.databaseUrl;
  const file = embeddedUrlFile(settings.dataDirectory);
  const noted = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  if (noted !== '') return noted;
  throw new OperatorError(
    'No database: DATABASE_URL is not set, and no `npm start` is running one for ' +
      `${settings.dataDirectory}. Set DATABASE_URL=postgres://user:password@host:5432/database.`,
  );
}

function isAddressOrRange(text: string): boolean {
  const [address = '', bits] = text.split('/');
  const version = isIP(address);
  if (version === 0) return false;
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
  );
}

function wholeNumber(least: number, most: number, byDefault: number) {
  const message = `must be a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .transform(Number)
    .refine((number) => number >= least && number <= most, message)
    .default(byDefault);
}

function size(byDefault: string) {
  return z
    .string()
    .regex(/^\d+(MB|GB|MiB|GiB)$/, 'must be a size such as 512MB or 2GiB')
    .default(byDefault);
}

/** As a browser writes it: in lower case, without a path, and without the scheme's own port. */
function isOrigin(text: string): boolean {
  return /^https?:[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

/** An address that paths can be added to. */
function isPlainAddress(address: string): boolean {
  return URL.canParse(address) && /^https?:\/\/[^\s?#]+$/.test(address);
}
