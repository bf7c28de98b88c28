import { checkRights, roleNamesOf } from '../postgres/rights/check-rights.ts';
import { migrate } from '../postgres/schema/migrate.ts';
import { OperatorError } from '../process/operator-error.ts';
import { createCommand, exitCodes, runProgram } from './command-line.ts';
import { commandDatabase, withDatabase } from './database.ts';

const noticeAfterMs = 10_000;
const stillMigrating =
  'Still migrating. Large tables take minutes. If pg_stat_activity shows that `crm-data-service migrate` ' +
  'waits for a lock, end the transaction that holds the lock.';

type Options = {
  readonly checkRights?: true;
  readonly apiRole?: string;
  readonly workerRole?: string;
  readonly writerRole?: string;
};

const program = createCommand('migrate')
  .option('--check-rights', 'change nothing, and compare the rights of roles with SECURITY.md')
  .option('--api-role <name>', 'the role of `npx crm-data-service api`; default: shop_api')
  .option('--worker-role <name>', 'the role of `npx crm-data-service sync`; default: shop_worker')
  .option('--writer-role <name>', 'the role that writes rows; default: shop_writer')
  .action(async (options: Options) =>
    options.checkRights === true ? printRights(options) : printMigration(),
  );

async function printMigration(): Promise<void> {
  const databaseUrl = await commandDatabase({ isPrimary: true, isToMigrate: true });
  const notice = setTimeout(() => console.error(stillMigrating), noticeAfterMs);
  const { applied, restored, isCaptureRestored, captureProblem } = await migrate(
    databaseUrl,
  ).finally(() => clearTimeout(notice));
  if (applied.length > 0) console.log(`Applied ${applied.join(', ')}.`);
  if (isCaptureRestored) console.log('Created the triggers that capture changes of purchases.');
  if (restored.length > 0) console.log(`Restored ${restored.join(', ')}.`);
  if (applied.length + restored.length === 0 && !isCaptureRestored && captureProblem === null) {
    console.log('Already up to date.');
  }
  if (captureProblem !== null) {
    throw new OperatorError(`${captureProblem.message} ${captureProblem.advice}`);
  }
}

/** Exits with 1 if a role has more or fewer rights. */
const printRights = ({ apiRole, workerRole, writerRole }: Options): Promise<void> =>
  withDatabase('crm-data-service migrate', { mapping_state: 'select' }, async (database) => {
    const { rows } = await database.query<{ owner: string }>('select current_user as owner');
    const names = roleNamesOf(rows[0]?.owner ?? '');
    const findings = await checkRights(database, {
      ...names,
      api: apiRole ?? names.api,
      worker: workerRole ?? names.worker,
      writer: writerRole ?? names.writer,
    });
    for (const { message, advice } of findings) console.log(`${message}\n  → ${advice}`);
    if (findings.length > 0) process.exitCode = exitCodes.failed;
    else console.log('The roles have the rights of SECURITY.md, and no others.');
  });

await runProgram(program);
