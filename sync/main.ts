import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Table from 'cli-table3';
import { createProgram, runProgram } from '../src/commands/command-line.ts';
import { createInstance } from '../src/engines/duckdb/connection.ts';
import { createLog } from '../src/log.ts';
import { listOrganizations, requireOrganization } from '../src/postgres/organizations.ts';
import { createPool, type Database, requireDatabase } from '../src/postgres/pool.ts';
import { readSettings, requireDatabaseUrl, type Settings } from '../src/settings.ts';
import { untilStopped } from '../src/stop-signals.ts';
import { dataFolderId, lockDataFolder } from './data-folder.ts';
import { type OrganizationStatus, readStatus } from './status.ts';
import { createWorker, type Worker } from './worker.ts';

type Options = { readonly organization?: string; readonly json?: boolean };

const program = createProgram(
  'npm run sync --',
  'Copies purchases from Postgres into the DuckDB files that the API reads.',
);

program
  .command('run', { isDefault: true })
  .description('follow all changes until stopped (default)')
  .action(async () => {
    const settings = readSettings();
    const stopped = untilStopped();
    await withWorker(settings, async (worker) => worker.run(stopped));
  });

program
  .command('once')
  .description('bring every organization up to date, publish, and exit')
  .option('--organization <id>', 'only this one (org_…)')
  .option('--json', 'print the resulting status as JSON')
  .action(async (options: Options) => {
    const settings = readSettings();
    await withWorker(settings, async (worker, database) => {
      const organizations = await selectOrganizations(database, options.organization);
      await worker.once(organizations.map(({ id }) => id));
      printStatus(await readStatus(database, settings.dataDirectory, organizations), options);
    });
  });

program
  .command('status')
  .description('how fresh each organization is')
  .option('--organization <id>', 'only this one (org_…)')
  .option('--json', 'print JSON')
  .action(async (options: Options) => {
    const settings = readSettings();
    await withDatabase(settings, async (database) => {
      const organizations = await selectOrganizations(database, options.organization);
      printStatus(await readStatus(database, settings.dataDirectory, organizations), options);
    });
  });

await runProgram(program);

async function withDatabase(
  settings: Settings,
  work: (database: Database, databaseUrl: string) => Promise<void>,
): Promise<void> {
  const databaseUrl = requireDatabaseUrl(settings);
  await requireDatabase(databaseUrl);
  // One connection an organization at work, one for the change log.
  const database = createPool(databaseUrl, {
    max: settings.syncConcurrency + 1,
    applicationName: 'crm-data-service sync',
  });
  try {
    await work(database, databaseUrl);
  } finally {
    await database.end();
  }
}

async function withWorker(
  settings: Settings,
  work: (worker: Worker, database: Database) => Promise<void>,
): Promise<void> {
  await withDatabase(settings, async (database, databaseUrl) => {
    const { dataDirectory } = settings;
    const folderId = await dataFolderId(dataDirectory);
    const lock = await lockDataFolder(databaseUrl, folderId, dataDirectory);
    try {
      await runWorker(settings, database, folderId, work);
    } finally {
      await lock.release();
    }
  });
}

async function runWorker(
  settings: Settings,
  database: Database,
  folderId: string,
  work: (worker: Worker, database: Database) => Promise<void>,
): Promise<void> {
  const { dataDirectory } = settings;
  const spill = join(dataDirectory, 'spill');
  mkdirSync(spill, { recursive: true });
  const instance = await createInstance({
    threads: settings.duckdbThreads,
    memoryLimit: settings.duckdbMemoryLimit,
    spillDirectory: join(spill, `sync-${process.pid}`),
  });
  const worker = createWorker({
    database,
    instance,
    dataDirectory,
    dataFolderId: folderId,
    concurrency: settings.syncConcurrency,
    pollIntervalMs: settings.syncPollIntervalMs,
    log: createLog('sync', settings.logLevel),
  });
  try {
    await work(worker, database);
  } finally {
    await worker.close();
    instance.closeSync();
  }
}

async function selectOrganizations(database: Database, publicId: string | undefined) {
  return publicId === undefined
    ? listOrganizations(database)
    : [await requireOrganization(database, publicId)];
}

function printStatus(statuses: readonly OrganizationStatus[], options: Options): void {
  if (options.json === true) {
    console.log(JSON.stringify(statuses, null, 2));
    return;
  }
  const table = new Table({
    head: ['organization', 'name', 'state', 'purchases', 'MiB', 'as of', 'pending', 'lag s'],
    style: { head: [], border: [], compact: true },
    colAligns: ['left', 'left', 'left', 'right', 'right', 'left', 'right', 'right'],
  });
  for (const status of statuses) {
    table.push([
      status.organization,
      status.name,
      status.state,
      status.purchases?.toLocaleString('en') ?? '–',
      status.fileBytes === null ? '–' : (status.fileBytes / 2 ** 20).toFixed(1),
      status.asOf ?? '–',
      status.pendingChanges ?? '–',
      status.lagSeconds ?? '–',
    ]);
  }
  console.log(table.toString());
}
