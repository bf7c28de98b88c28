import type { TableRights } from '../postgres/connection/database-failure.ts';
import { type Database, withConnection } from '../postgres/connection/pool.ts';
import { applyMapping, createObjects } from '../postgres/mapping/apply.ts';
import { checkMapping } from '../postgres/mapping/check/check.ts';
import { type Mapping, readMapping } from '../postgres/mapping/mapping-definition.ts';
import { readStoredTotals } from '../postgres/mapping/organization-totals.ts';
import { removeMapping } from '../postgres/mapping/remove.ts';
import { createProgress } from '../process/progress.ts';
import { untilStopped } from '../process/stop-signals.ts';
import { createCommand, exitCodes, print, runProgram } from './command-line.ts';
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
const rightsToTrigger = { mapping_sources: 'select', mapping_state: 'select, insert' };
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
  .action(async ({ json }: { readonly json?: boolean }) =>
    runUntilStopped(rightsToCheck, async (database, stopped) => {
      const { mapping, ...checked } = await checkMapping(database, stopped);
      print(json, checked, () => formatCheck(checked));
      if (mapping === null) process.exitCode = exitCodes.failed;
    }),
  );

program
  .command('triggers')
  .description('create tables and triggers, read no row; for `apply` as a role that may not')
  .action(async () =>
    runUntilStopped(rightsToTrigger, async (database, stopped) => {
      await createObjects(database, await readMapping(database), stopped);
      console.log('Tables and triggers are complete. Run `npx crm-data-service mapping check`.');
    }),
  );

program
  .command('apply')
  .description('check, create what is missing, and map all rows; repeat it after any change')
  .option('--accept-deletions', 'also delete rows that the views no longer have, if they are many')
  .action(async ({ acceptDeletions = false }: { readonly acceptDeletions?: boolean }) =>
    runUntilStopped(rightsToApply, async (database, stopped) => {
      const { findings, mapping, views } = await checkMapping(database, stopped);
      if (findings.length > 0) console.log(`${formatFindings(findings)}\n`);
      if (mapping === null) {
        console.log(`Nothing is applied. ${summarize(findings)}`);
        process.exitCode = exitCodes.failed;
        return;
      }
      const total = views.reduce((sum, { rows }) => sum + (rows?.rows ?? 0), 0);
      await apply(database, mapping, total, acceptDeletions, stopped);
    }),
  );

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

/** Statements may take any time, until SIGINT. Then the exit code is that of SIGINT. */
async function runUntilStopped(
  rights: TableRights,
  work: (database: Database, stopped: AbortSignal) => Promise<void>,
): Promise<void> {
  const stopped = untilStopped();
  await withDatabase(
    applicationName,
    rights,
    (database) =>
      work(database, stopped).catch((error) => {
        if (!stopped.aborted) throw error;
        process.exitCode = exitCodes.stopped;
      }),
    null,
  );
}

async function apply(
  database: Database,
  mapping: Mapping,
  total: number,
  acceptDeletions: boolean,
  stopped: AbortSignal,
): Promise<void> {
  const progress = createProgress('rows', total);
  const options = { acceptDeletions, onProgress: progress.update, signal: stopped };
  const { mapped, triggered } = await applyMapping(database, mapping, options)
    .finally(progress.end)
    .catch((error) => {
      if (stopped.aborted) {
        console.error(
          `Stopped after ${count(progress.done())} of ${count(total)} rows. ` +
            'Run `npx crm-data-service mapping apply` again: it goes on where it was.',
        );
      }
      throw error;
    });
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
