import { type Database, withConnection } from '../postgres/connection/pool.ts';
import { applyMapping, createObjects } from '../postgres/mapping/apply.ts';
import { checkMapping, type MappingCheck } from '../postgres/mapping/check/check.ts';
import { type Mapping, readMapping } from '../postgres/mapping/mapping-definition.ts';
import { removeMapping } from '../postgres/mapping/remove.ts';
import { readStoredTotals } from '../postgres/mapping/totals.ts';
import { createProgress } from '../process/progress.ts';
import { untilStopped } from '../process/stop-signals.ts';
import { createCommand, exitCodes, runProgram } from './command-line.ts';
import { withDatabase } from './database.ts';
import { count, formatCheck, formatFindings, formatTotals, summarize } from './mapping-report.ts';
import { addStatusCommand } from './mapping-status.ts';

const program = createCommand('mapping');

const applicationName = 'crm-data-service mapping';
const allRights = 'select, insert, update, delete';
const rightsToCheck = {
  organizations: 'select',
  customers: 'select',
  purchases: 'select',
  mapping_sources: 'select',
};
const rightsToApply = {
  ...rightsToCheck,
  customers: allRights,
  purchases: allRights,
  mapping_changes: 'select, delete',
  mapping_state: 'select, insert, update',
  mapped_organizations: allRights,
  mapping_failures: allRights,
  mapping_held_deletions: allRights,
  mapped_customer_numbers: 'select, insert, update',
  mapped_purchase_numbers: 'select, insert, update',
};
const rightsToRemove = {
  ...rightsToApply,
  mapping_state: allRights,
  mapped_customer_numbers: allRights,
  mapped_purchase_numbers: allRights,
};

program
  .command('check')
  .description('check the views and mapping_sources, change nothing; exit with 1 if one is refused')
  .option('--json', 'print JSON')
  .action(async (options: { readonly json?: boolean }) => {
    const stopped = untilStopped();
    await withDatabase(
      applicationName,
      rightsToCheck,
      async (database) => {
        const checked = await unlessStopped(stopped, () => checkMapping(database, stopped));
        if (checked === null) return;
        const { mapping, ...printed } = checked;
        console.log(
          options.json === true ? JSON.stringify(printed, null, 2) : formatCheck(checked),
        );
        if (mapping === null) process.exitCode = exitCodes.failed;
      },
      null,
    );
  });

program
  .command('triggers')
  .description('create tables and triggers, read no row; for `apply` as a role that may not')
  .action(async () => {
    const stopped = untilStopped();
    await withDatabase(
      applicationName,
      { mapping_sources: 'select', mapping_state: 'select, insert' },
      async (database) => {
        const done = await unlessStopped(stopped, async () => {
          await createObjects(database, await readMapping(database), stopped);
          return true;
        });
        if (done)
          console.log(
            'Tables and triggers are complete. Run `npx crm-data-service mapping check`.',
          );
      },
      null,
    );
  });

program
  .command('apply')
  .description('check, create what is missing, and map all rows; repeat it after any change')
  .option('--accept-deletions', 'also delete rows that the views no longer have, if they are many')
  .action(async ({ acceptDeletions = false }: { readonly acceptDeletions?: boolean }) => {
    const stopped = untilStopped();
    await withDatabase(
      applicationName,
      rightsToApply,
      async (database) => {
        const checked = await unlessStopped(stopped, () => checkMapping(database, stopped));
        if (checked === null) return;
        const { findings, mapping } = checked;
        if (findings.length > 0) console.log(`${formatFindings(findings)}\n`);
        if (mapping === null) {
          console.log(`Nothing is applied. ${summarize(findings)}`);
          process.exitCode = exitCodes.failed;
          return;
        }
        await apply(database, mapping, rowsOf(checked), acceptDeletions, stopped);
      },
      null,
    );
  });

addStatusCommand(program);

program
  .command('remove')
  .description('remove triggers and numbers, and leave the rows')
  .option('--rows', 'also delete the mapped rows')
  .action(async ({ rows: withRows = false }: { readonly rows?: boolean }) =>
    withDatabase(
      applicationName,
      rightsToRemove,
      async (database) => {
        const { triggers, wasApplied, customers, purchases } = await removeMapping(
          database,
          withRows,
        );
        if (triggers === 0 && !wasApplied) {
          console.log('No mapping is applied.');
          return;
        }
        console.log(`Removed ${count(triggers)} triggers, and the numbers of the rows.`);
        const rows = `${count(customers)} customers and ${count(purchases)} purchases`;
        console.log(
          withRows
            ? `Deleted ${rows}.`
            : `${rows} stay. A later \`apply\` does not know them, and adds all rows again.`,
        );
      },
      null,
    ),
  );

await runProgram(program);

/** Null, and the exit code of SIGINT, if the work was stopped. */
async function unlessStopped<Result>(
  stopped: AbortSignal,
  work: () => Promise<Result>,
): Promise<Result | null> {
  try {
    return await work();
  } catch (error) {
    if (!stopped.aborted) throw error;
    process.exitCode = exitCodes.stopped;
    return null;
  }
}

function rowsOf({ views }: MappingCheck): number {
  return views.reduce((sum, { rows }) => sum + (rows?.rows ?? 0), 0);
}

async function apply(
  database: Database,
  mapping: Mapping,
  total: number,
  acceptDeletions: boolean,
  stopped: AbortSignal,
): Promise<void> {
  const progress = createProgress('rows', total);
  const applied = await unlessStopped(stopped, () =>
    applyMapping(database, mapping, {
      acceptDeletions,
      onProgress: progress.update,
      signal: stopped,
    }),
  ).finally(progress.end);
  if (applied === null) {
    console.error(
      `Stopped after ${count(progress.done())} of ${count(total)} rows. ` +
        'Run `npx crm-data-service mapping apply` again: it goes on where it was.',
    );
    return;
  }
  const { mapped, triggered } = applied;
  if (mapped !== null) {
    console.log(`Wrote ${count(mapped.written)} rows, deleted ${count(mapped.deleted)}.\n`);
  } else {
    const created =
      triggered.length === 0
        ? 'No trigger is missing'
        : `Created triggers of ${triggered.join(', ')}`;
    console.log(
      `${created}. The worker compares the rows: \`npx crm-data-service mapping status\`.\n`,
    );
  }
  console.log(formatTotals(await readStoredTotals(database)));
  for (const line of await describeRest(database)) console.log(`\n${line}`);
}

/** What is left to do for the operator. */
async function describeRest(database: Database): Promise<string[]> {
  const { rows } = await withConnection(database, (connection) =>
    connection.query<{ failures: bigint; held: bigint | null; isFollowed: boolean }>(
      `select (select count(*) from mapping_failures) as failures,
         (select sum(rows)::bigint from mapping_held_deletions) as held,
         exists (
           select from pg_stat_activity
           where datname = current_database() and application_name like 'crm-data-service sync lock%'
             and application_name not like '% command%') as "isFollowed"`,
    ),
  );
  const { failures = 0n, held = null, isFollowed = false } = rows[0] ?? {};
  return [
    ...(failures === 0n
      ? []
      : [`${failures} rows are refused, and left out: select * from mapping_failures;`]),
    ...(held === null
      ? []
      : [
          `${held} rows that the views no longer have are not deleted, because they are many. If this is ` +
            'right, run `npx crm-data-service mapping apply --accept-deletions`.',
        ]),
    isFollowed
      ? 'The worker follows the changes.'
      : 'Start the worker, which follows the changes: `npx crm-data-service sync`.',
  ];
}
