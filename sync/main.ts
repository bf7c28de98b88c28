import {
  createCommand,
  durationOption,
  exitCodes,
  print,
  runAsService,
  runProgram,
  shardOption,
} from '../src/commands/command-line.ts';
import { encodeId } from '../src/domain/public-id.ts';
import { serveMetrics } from '../src/metrics/listener.ts';
import { createRegistry } from '../src/metrics/registry.ts';
import { listOrganizations, requireOrganization } from '../src/postgres/organizations.ts';
import { OperatorError } from '../src/process/operator-error.ts';
import { boundShutdown, untilStopped } from '../src/process/stop-signals.ts';
import type { Shard } from '../src/purchase-store/ticks/shard.ts';
import { workerShares } from '../src/settings/memory-needs.ts';
import { readSettings, type Settings } from '../src/settings/settings.ts';
import { rebuildOrganization } from './commands/rebuild.ts';
import { publishedContentsOf, withPublishedStatus } from './commands/stores.ts';
import { verifyAll } from './commands/verify-command.ts';
import {
  followChanges,
  type WorkerContext,
  withOnlyWorker,
  withWorkerContext,
} from './commands/worker-process.ts';
import { describeFailure, type Failure } from './describe-failure.ts';
import { createWorkerMetrics } from './metrics/metrics.ts';
import { isHealthy } from './status/health.ts';
import { readStatus } from './status/status.ts';
import { formatStatus } from './status/status-table.ts';
import type { WorkerOptions } from './worker/worker.ts';

type Options = {
  readonly organization?: string;
  readonly json?: boolean;
  readonly check?: boolean;
  readonly all?: boolean;
};

/** How long `status` waits for a response. A monitor of `--check` gets one within five seconds. */
const statusTimeoutMs = 10_000;
const checkTimeoutMs = 3_000;

const program = createCommand('sync');

// Commander would take an unknown command for an argument of the default one.
program.hook('preSubcommand', ({ args: [name = '-'], commands }) => {
  const isKnown = name.startsWith('-') || commands.some((command) => command.name() === name);
  if (!isKnown) program.error(`error: unknown command '${name}'`);
});

program
  .command('run', { isDefault: true })
  .description('follow changes until stopped (default); a standby while another worker runs')
  .option('--shard <i/n>', 'only the i-th of n shards of the organizations', shardOption)
  .option(
    '--every, --verify-every <time>',
    'maximum age of the last verification, such as 6h; VERIFY_EVERY by default',
    durationOption,
  )
  .action(async (options: { readonly shard?: Shard; readonly verifyEvery?: number }) => {
    runAsService('sync');
    const stopped = untilStopped();
    const settings = readSettings();
    // Also while the worker waits for Postgres, or is a standby.
    const served = await startMetrics(settings, options.shard);
    try {
      await withWorkerContext(settings, { server: 'primary', stopped }, async (context) => {
        boundShutdown(stopped, settings.shutdownTimeoutMs, context.log);
        if (served !== null) context.log.info({ url: served.url }, 'serving metrics');
        const metrics = served === null ? {} : { metrics: served.metrics };
        await followChanges(context, { ...workerOptions(context, options), ...metrics }, stopped);
      });
    } finally {
      await served?.close();
    }
  });

program
  .command('once')
  .description('update all organizations once, publish, and exit')
  .option('--organization <id>', 'only this organization (org_…)')
  .option('--json', 'print the resulting status as JSON')
  .action(async (options: Options) => {
    await withWorkerContext(readSettings(), { server: 'primary' }, async (context) => {
      const organizations = await selectOrganizations(context, options);
      await withOnlyWorker(context, (worker) => worker.once(organizations.map(({ id }) => id)));
      await printStatus(context, options);
    });
  });

program
  .command('rebuild')
  .description('build new files from Postgres while the current ones serve')
  .option('--organization <id>', 'only this organization (org_…)')
  .action(async (options: Options) => {
    const stopped = untilStopped();
    await withWorkerContext(readSettings(), { server: 'primary', stopped }, async (context) => {
      const organizations = await selectOrganizations(context, options);
      for (const { id, name } of organizations) {
        await rebuildOrganization(context, id, { differsFromPostgres: false, stopped });
        console.log(`${encodeId('organization', id)} (${name}) was rebuilt.`);
      }
    });
  });

program
  .command('verify')
  .description('compare the published content with Postgres; exit with 1 if they differ')
  .option('--organization <id>', 'only this organization (org_…)')
  .option('--repair', 'rebuild organizations that differ, and verify the result')
  .option('--json', 'print JSON')
  .action(async (options: Options & { readonly repair?: boolean }) => {
    const stopped = untilStopped();
    await withWorkerContext(readSettings(), { server: 'primary', stopped }, async (context) => {
      process.exitCode = await verifyAll(context, {
        organizations: await selectOrganizations(context, options),
        isNamed: options.organization !== undefined,
        isToRepair: options.repair === true,
        json: options.json === true,
        stopped,
      });
    });
  });

program
  .command('status')
  .description('show the worker, the freshness of each organization, and failures')
  .option('--organization <id>', 'only this organization (org_…)')
  .option('--check', 'list only what needs an operator, and exit with 1 if there is anything')
  .option('--all', 'list more than 20 organizations')
  .option('--json', 'print all as JSON')
  .action(async (options: Options) => {
    const timeoutMs = options.check === true ? checkTimeoutMs : statusTimeoutMs;
    await withWorkerContext(readSettings(), { server: 'any', timeoutMs }, (context) =>
      printStatus(context, options, timeoutMs),
    );
  });

await runProgram(program);

/** Null without SYNC_METRICS_LISTEN. */
async function startMetrics({ syncMetricsListen: address }: Settings, shard?: Shard) {
  if (address === null) return null;
  const registry = createRegistry();
  const metrics = createWorkerMetrics(registry, shard);
  const { url, close } = await serveMetrics(registry, address, 'SYNC_METRICS_LISTEN');
  return { url, close, metrics };
}

function workerOptions(
  { settings }: WorkerContext,
  options: { readonly shard?: Shard; readonly verifyEvery?: number },
): Partial<WorkerOptions> {
  const { shard, verifyEvery: everyMs = settings.verifyEveryMs } = options;
  const limits = { threads: 1, memoryLimit: workerShares(settings).verification };
  return {
    ...(shard === undefined ? {} : { shard }),
    onUpToDate: upToDateSender(),
    verification:
      everyMs === null ? undefined : { everyMs, open: publishedContentsOf(settings, limits) },
  };
}

/** Sends one message to the parent process, at the first call. */
function upToDateSender(): () => void {
  let isSent = false;
  return () => {
    if (isSent) return;
    isSent = true;
    // The parent process may have ended.
    process.send?.('up to date', undefined, undefined, () => {});
  };
}

async function selectOrganizations({ database }: WorkerContext, { organization }: Options) {
  return organization === undefined
    ? listOrganizations(database)
    : [await requireOrganization(database, organization)];
}

async function printStatus(
  context: WorkerContext,
  options: Options,
  timeoutMs = statusTimeoutMs,
): Promise<void> {
  const { database, settings, folderId } = context;
  let failure: Failure | null = null;
  const organizations = await selectOrganizations(context, options).catch((error) => {
    if (error instanceof OperatorError) throw error;
    failure = describeFailure(error);
    return [];
  });
  const { dataDirectory, syncPollIntervalMs, readyMaxLagMs } = settings;
  const read = await withPublishedStatus(settings, timeoutMs, (readPublished) =>
    readStatus(database, dataDirectory, folderId, organizations, syncPollIntervalMs, readPublished),
  );
  const status = { ...read, failure: failure ?? read.failure };
  const maxLagSeconds = readyMaxLagMs / 1000;
  print(options.json, status, () => formatStatus(status, { ...options, maxLagSeconds }));
  const isCheckPassed = options.check !== true || isHealthy(status, maxLagSeconds);
  if (status.failure !== null || !isCheckPassed) process.exitCode = exitCodes.failed;
}
