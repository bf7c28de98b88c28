import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { encodeId } from '../domain/public-id.ts';
import { startEmbeddedPostgres } from '../embedded-postgres/cluster.ts';
import { createLog } from '../log.ts';
import { OperatorError } from '../operator-error.ts';
import { createApiKey, findCredential, secretHash } from '../postgres/api-keys.ts';
import { migrate } from '../postgres/migrate.ts';
import { listOrganizations, type Organization } from '../postgres/organizations.ts';
import { createPool, type Database } from '../postgres/pool.ts';
import { requireDatabase } from '../postgres/require-database.ts';
import { closeFile, writePrivateFile } from '../private-files.ts';
import { requireFreePort, requireWritable, startServer } from '../server.ts';
import { embeddedUrlFile, readSettings, type Settings } from '../settings.ts';
import { untilAborted, untilStopped } from '../stop-signals.ts';
import { createProgram, runProgram } from './command-line.ts';
import { seedWithProgress } from './seed-progress.ts';
import { superviseWorker } from './worker-process.ts';

const demo = { organizations: 2, customers: 5_000, purchases: 50_000, seed: 42 };

const program = createProgram(
  'npm start',
  'Runs everything: Postgres (embedded unless DATABASE_URL is set), the sync worker, the API.',
).action(async () => {
  const settings = readSettings();
  requireWritable(settings.dataDirectory);
  await requireFreePort(settings);
  const stopped = untilStopped();
  const started: (() => Promise<void>)[] = [];
  /** Aborted where the embedded Postgres ends by itself. */
  const databaseEnded = new AbortController();
  const ended = AbortSignal.any([stopped, databaseEnded.signal]);
  try {
    const log = createLog('start', settings.logLevel);
    const databaseUrl = await startDatabase(settings, started, databaseEnded);
    const isUsable = await requireDatabase(
      databaseUrl,
      { isPrimary: true, isToMigrate: true, statementTimeoutMs: settings.queryTimeoutMs },
      { forMs: settings.databaseWaitMs, report: (line) => log.warn(line), stopped: ended },
    );
    databaseEnded.signal.throwIfAborted();
    if (!isUsable) return;
    const example = await prepareDatabase(databaseUrl, settings.dataDirectory);
    const server = await startServer(settings, databaseUrl, createLog('api', settings.logLevel));
    started.push(() => server.close());
    const worker = superviseWorker(databaseUrl, log);
    started.push(() => worker.stop());
    // The password of a database that was given is nothing to print.
    const embeddedUrl = settings.databaseUrl === undefined ? databaseUrl : null;
    console.log(greeting(server.url, embeddedUrl, example));
    await untilAborted(ended);
    // The worker and the API cannot go on; a supervisor starts all of it again.
    databaseEnded.signal.throwIfAborted();
  } catch (error) {
    // Whatever failed meanwhile failed because of that.
    throw databaseEnded.signal.aborted ? databaseEnded.signal.reason : error;
  } finally {
    for (const stop of started.reverse()) await stop();
  }
});

await runProgram(program);

/** The given database, or an embedded one that other commands find through a file. */
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

type Example = { readonly organization: Organization; readonly secret: string };

/** Schema, demo data where there is none, and a key to try the API with. */
async function prepareDatabase(databaseUrl: string, dataDirectory: string): Promise<Example> {
  await migrate(databaseUrl);
  const database = createPool(databaseUrl, { max: 1, applicationName: 'crm-data-service start' });
  try {
    if ((await listOrganizations(database)).length === 0) {
      console.log('The database is empty: adding demo data.');
      const until = new Date(new Date().toISOString().slice(0, 10));
      await seedWithProgress(databaseUrl, { ...demo, until });
    }
    const [organization] = await listOrganizations(database);
    if (organization === undefined) throw new Error('there is no organization to try');
    return { organization, secret: await exampleKey(database, organization, dataDirectory) };
  } finally {
    await database.end();
  }
}

/** The key that the last start made, as long as it works; a new one otherwise. */
async function exampleKey(
  database: Database,
  organization: Organization,
  dataDirectory: string,
): Promise<string> {
  const file = join(dataDirectory, 'example-key');
  if (existsSync(file)) {
    closeFile(file);
    const secret = readFileSync(file, 'utf8').trim();
    const hash = secretHash(secret);
    const credential = hash === null ? null : await findCredential(database, hash);
    if (credential?.organizationId === organization.id) return secret;
  }
  const { secret } = await createApiKey(database, {
    organizationId: organization.id,
    name: 'Example of npm start',
    scopes: ['read'],
    expiresAt: null,
  });
  writePrivateFile(file, `${secret}\n`);
  return secret;
}

function greeting(
  url: string,
  embeddedUrl: string | null,
  { organization, secret }: Example,
): string {
  const curl = (path: string) => `  curl -H "Authorization: Bearer ${secret}" "${url}${path}"`;
  return [
    '',
    `The API is at ${url}${embeddedUrl === null ? '' : `, Postgres at ${embeddedUrl}`}.`,
    `A key for ${organization.name} (${encodeId('organization', organization.id)}):`,
    '',
    `  ${secret}`,
    '',
    'Try it:',
    '',
    curl('/v1/me'),
    curl('/v1/purchases?limit=3'),
    curl('/v1/purchases/stats?status=paid&group_by=utm_campaign&group_limit=5'),
    '',
    'Ctrl-C stops everything.',
    '',
  ].join('\n');
}
