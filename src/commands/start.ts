import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { encodeId } from '../domain/public-id.ts';
import { startEmbeddedPostgres, stopTimeoutMs } from '../embedded-postgres/cluster.ts';
import { createPool, type Database } from '../postgres/connection/pool.ts';
import { requireDatabase } from '../postgres/connection/require-database.ts';
import { createApiKey } from '../postgres/keys/api-keys.ts';
import { listOrganizations, type OrganizationRow } from '../postgres/organizations.ts';
import { migrate } from '../postgres/schema/migrate.ts';
import { diskProblem } from '../process/disk-space.ts';
import { createLog, logProcessEvents } from '../process/log.ts';
import { OperatorError } from '../process/operator-error.ts';
import { writePrivateFile } from '../process/private-files.ts';
import { boundShutdown, untilAborted, untilStopped } from '../process/stop-signals.ts';
import { closeTimeoutMs, requireFreePorts, requireWritable, startServer } from '../server.ts';
import { embeddedUrlFile, readSettings, type Settings } from '../settings/settings.ts';
import { createCommand, runProgram } from './command-line.ts';
import { loggedWait } from './database.ts';
import { explainByRunningStart, removeRunningStart, writeRunningStart } from './running-start.ts';
import { superviseWorker } from './worker-supervisor.ts';

/** The banner's maximum wait for the worker. Large organizations take minutes to load. */
const bannerWaitMs = 10_000;
const demo = { organizations: 2, customers: 5_000, purchases: 50_000, seed: 42 };

/** A new cluster of Postgres takes 40 MB, and a segment of its write-ahead log 16 MiB. */
const postgresBytes = 64 * 2 ** 20;

const program = createCommand('start').action(async () => {
  const settings = readSettings();
  const { dataDirectory } = settings;
  requireWritable(dataDirectory);
  const explain = (error: unknown) => {
    throw explainByRunningStart(dataDirectory, error);
  };
  await requireFreePorts(settings).catch(explain);
  const stopped = untilStopped();
  const started: (() => Promise<void>)[] = [];
  /** Aborted if the embedded Postgres ends by itself. */
  const databaseEnded = new AbortController();
  const ended = AbortSignal.any([stopped, databaseEnded.signal]);
  const log = createLog('start', settings.logLevel);
  logProcessEvents(log);
  // The worker, then the API, then Postgres. They also end if this process is killed.
  const timeoutMs = 2 * settings.shutdownTimeoutMs + closeTimeoutMs + stopTimeoutMs;
  boundShutdown(ended, timeoutMs, log);
  try {
    requireReserve(settings, log);
    const databaseUrl = await startDatabase(settings, started, databaseEnded).catch(explain);
    writeRunningStart(dataDirectory, null);
    started.push(async () => removeRunningStart(dataDirectory));
    const isUsable = await requireDatabase(
      databaseUrl,
      { isPrimary: true, isToMigrate: true },
      loggedWait(settings, log, ended),
    );
    databaseEnded.signal.throwIfAborted();
    if (!isUsable) return;
    const isGiven = settings.databaseUrl !== undefined;
    const access = await prepareDatabase(databaseUrl, isGiven, ended);
    const server = await startServer(settings, databaseUrl, createLog('api', settings.logLevel));
    started.push(() => server.close());
    writeRunningStart(dataDirectory, server.url);
    const worker = superviseWorker(databaseUrl, log);
    started.push(() => worker.stop());
    // The banner follows the log lines of short loads.
    const timeout = sleep(bannerWaitMs, undefined, { ref: false });
    await Promise.race([worker.upToDate, timeout, untilAborted(ended)]);
    // A password in DATABASE_URL must not be printed.
    console.log(banner(server.url, isGiven ? null : databaseUrl, access));
    await untilAborted(ended);
    // Worker and API need Postgres. A supervisor can restart all of them.
    databaseEnded.signal.throwIfAborted();
  } catch (error) {
    // The end of Postgres causes other errors, and so does the end of a seed.
    if (databaseEnded.signal.aborted) throw databaseEnded.signal.reason;
    if (!stopped.aborted) throw error;
  } finally {
    for (const stop of started.reverse()) await stop();
  }
});

await runProgram(program);

/** Throws if the embedded Postgres would fill the disk. Another database may be on another disk. */
function requireReserve({ dataDirectory, databaseUrl }: Settings, log: Logger): void {
  const problem = diskProblem(dataDirectory, databaseUrl === undefined ? postgresBytes : 0);
  if (problem === null) return;
  if (databaseUrl === undefined) throw new OperatorError(problem);
  log.warn(problem);
}

/** Returns DATABASE_URL, or starts the embedded Postgres and writes its URL to a file. */
async function startDatabase(
  settings: Settings,
  started: (() => Promise<void>)[],
  ended: AbortController,
): Promise<string> {
  if (settings.databaseUrl !== undefined) return settings.databaseUrl;
  const directory = join(settings.dataDirectory, 'postgres');
  const postgres = await startEmbeddedPostgres({
    directory,
    database: 'crm',
    preferredPort: 54_329,
  });
  if (postgres.home !== directory) {
    console.log(
      `Postgres keeps its files in ${postgres.home}: its user cannot reach ${directory}.`,
    );
  }
  const onExit = (code: number | null, signal: NodeJS.Signals | null) =>
    ended.abort(
      new OperatorError(
        `The embedded Postgres ended (${signal ?? `exit code ${code}`}), so everything stops. ` +
          `Start again; its log is ${join(postgres.home, 'postgres.log')}.`,
      ),
    );
  postgres.process.once('exit', onExit);
  const urlFile = embeddedUrlFile(settings.dataDirectory);
  started.push(async () => {
    postgres.process.off('exit', onExit);
    rmSync(urlFile, { force: true });
    await postgres.stop();
  });
  writePrivateFile(urlFile, `${postgres.url}\n`);
  return postgres.url;
}

/** The API key of the banner; `secret` only if this start created the key. */
type Access = { readonly organization: OrganizationRow | null; readonly secret: string | null };

/**
 * Migrates the schema. Adds demo data and a key if the database has no organizations. A database
 * of DATABASE_URL must also have had no tables. If `ended` is aborted, nothing is added.
 */
async function prepareDatabase(
  databaseUrl: string,
  isGiven: boolean,
  ended: AbortSignal,
): Promise<Access> {
  const database = createPool(databaseUrl, { max: 1, applicationName: 'crm-data-service start' });
  try {
    const mayAddDemo = !isGiven || !(await hasTables(database));
    await migrate(databaseUrl);
    const [existing = null] = await listOrganizations(database);
    if (existing !== null || !mayAddDemo) return { organization: existing, secret: null };
    console.log('The database is empty: adding demo data.');
    // Loaded only here: with faker, it takes memory that the API does not need.
    const { seedWithProgress } = await import('../seed/seed-database.ts');
    // In one transaction: after a kill, the next start finds an empty database again.
    await seedWithProgress(databaseUrl, {
      ...demo,
      until: new Date(),
      isOneTransaction: true,
      signal: ended,
    });
    const [organization] = await listOrganizations(database);
    if (organization === undefined) throw new Error('there is no organization to try');
    const { secret } = await createApiKey(database, {
      organizationId: organization.id,
      name: 'Example of npm start',
      scopes: ['read'],
      expiresAt: null,
    });
    return { organization, secret };
  } finally {
    await database.end();
  }
}

async function hasTables(database: Database): Promise<boolean> {
  const { rowCount } = await database.query(`
    select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where relkind in ('r', 'p') and nspname !~ '^pg_' and nspname <> 'information_schema' limit 1`);
  return rowCount !== 0;
}

function banner(url: string, embeddedUrl: string | null, access: Access): string {
  return [
    '',
    `The API is at ${url}${embeddedUrl === null ? '' : `, Postgres at ${embeddedUrl}`}.`,
    `Open ${url} in a browser to see purchases.`,
    `The reference, to read and to try out, is at ${url}/docs.`,
    '',
    ...describeAccess(url, embeddedUrl === null, access),
    '',
    'Ctrl-C stops everything.',
    '',
  ].join('\n');
}

function describeAccess(url: string, isGiven: boolean, { organization, secret }: Access): string[] {
  const where = isGiven ? ', where DATABASE_URL is set as here' : '';
  if (organization === null) {
    return [
      `The database has no organizations. Add demo data, with API keys${where}:`,
      '',
      '  npx crm-data-service seed --organizations 2 --customers 5000 --purchases 50000',
    ];
  }
  const id = encodeId('organization', organization.id);
  const create = `npx crm-data-service keys create --organization ${id} --name "My key"`;
  const curl = (path: string) =>
    `  curl -H "Authorization: Bearer ${secret ?? '$KEY'}" "${url}${path}"`;
  return [
    ...(secret === null
      ? [
          `Make an API key for ${organization.name}${where}; its secret is shown once:`,
          '',
          `  KEY="$(${create} | tail -n 1)"`,
          '',
          'Keys that exist: npx crm-data-service keys list',
        ]
      : [`An API key for ${organization.name} (${id}), shown only now:`, '', `  ${secret}`]),
    '',
    'Try it:',
    '',
    curl('/v1/me'),
    curl('/v1/purchases?status=paid&limit=3'),
    curl('/v1/purchases/stats?status=paid&group_by=utm_campaign&group_limit=5'),
  ];
}
