import { createProgram, runProgram } from '../src/commands/command-line.ts';
import { encodeId } from '../src/domain/public-id.ts';
import { OperatorError } from '../src/operator-error.ts';
import { listOrganizations, requireOrganization } from '../src/postgres/organizations.ts';
import { readSettings } from '../src/settings.ts';
import { untilStopped } from '../src/stop-signals.ts';
import { askWorker } from './requests.ts';
import { type Shard, shardOption } from './shard.ts';
import { readStatus } from './status.ts';
import { formatStatus } from './status-table.ts';
import { followChanges, type Workplace, withOnlyWorker, withWorkplace } from './worker-process.ts';

type Options = { readonly organization?: string; readonly json?: boolean };

const program = createProgram(
  'npm run sync --',
  'Copies purchases from Postgres into the DuckDB files that the API reads.',
);

program
  .command('run', { isDefault: true })
  .description('follow all changes until stopped (default); stand by while another worker does')
  .option('--shard <i/n>', 'only the i-th of n parts of the organizations', shardOption)
  .action(async (options: { readonly shard?: Shard }) => {
    const stopped = untilStopped();
    await withWorkplace(readSettings(), (workplace) => followChanges(workplace, options, stopped));
  });

program
  .command('once')
  .description('bring every organization up to date, publish, and exit')
  .option('--organization <id>', 'only this one (org_…)')
  .option('--json', 'print the resulting status as JSON')
  .action(async (options: Options) => {
    await withWorkplace(readSettings(), async (workplace) => {
      const organizations = await selectOrganizations(workplace, options);
      await withOnlyWorker(workplace, (worker) => worker.once(organizations.map(({ id }) => id)));
      await printStatus(workplace, options);
    });
  });

program
  .command('rebuild')
  .description('build files anew from Postgres, beside those that serve, and swap')
  .option('--organization <id>', 'only this one (org_…)')
  .action(async (options: Options) => {
    const stopped = untilStopped();
    await withWorkplace(readSettings(), async (workplace) => {
      const organizations = await selectOrganizations(workplace, options);
      for (const { id, name } of organizations) {
        await withOnlyWorker(
          workplace,
          (worker) => worker.rebuild(id),
          () => askForRebuild(workplace, id, stopped),
        );
        console.log(`${encodeId('organization', id)} (${name}) was rebuilt.`);
      }
    });
  });

program
  .command('status')
  .description('what the worker does, how fresh each organization is, and what stands in the way')
  .option('--organization <id>', 'only this one (org_…)')
  .option('--json', 'print JSON')
  .action(async (options: Options) => {
    await withWorkplace(readSettings(), (workplace) => printStatus(workplace, options));
  });

await runProgram(program);

async function askForRebuild(
  { settings }: Workplace,
  organizationId: bigint,
  stopped: AbortSignal,
): Promise<void> {
  const failure = await askWorker(
    settings.dataDirectory,
    { kind: 'rebuild', organizationId },
    stopped,
  );
  if (failure !== null) throw new OperatorError(`The worker could not rebuild it: ${failure}`);
}

async function selectOrganizations({ database }: Workplace, { organization }: Options) {
  return organization === undefined
    ? listOrganizations(database)
    : [await requireOrganization(database, organization)];
}

async function printStatus(workplace: Workplace, options: Options): Promise<void> {
  const { database, settings, folderId } = workplace;
  const organizations = await selectOrganizations(workplace, options);
  const status = await readStatus(database, settings.dataDirectory, folderId, organizations);
  console.log(options.json === true ? JSON.stringify(status, null, 2) : formatStatus(status));
}
