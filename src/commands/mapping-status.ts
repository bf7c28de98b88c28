import type { Command } from 'commander';
import { formatDuration } from '../domain/duration.ts';
import {
  type MappingStatus,
  mappingStatusRights,
  maxCounted,
  readMappingStatus,
} from '../postgres/mapping/mapping-status.ts';
import { print } from './command-line.ts';
import { withDatabase } from './database.ts';

const unmapped = 'There is no mapping. `npx crm-data-service mapping apply` creates one.';

export function addStatusCommand(program: Command): void {
  program
    .command('status')
    .description('show how fresh the mapped rows are, refused rows and held deletions')
    .option('--json', 'print JSON')
    .action(async ({ json }: { readonly json?: boolean }) =>
      withDatabase('crm-data-service mapping', mappingStatusRights, async (database) => {
        const status = await readMappingStatus(database);
        print(json, status, () =>
          status === null ? unmapped : formatMappingStatus(status).join('\n'),
        );
      }),
    );
}

/** The status of the mapping as lines of text. */
export function formatMappingStatus(status: MappingStatus): string[] {
  const { refusedRows, refusals, heldDeletions, problem } = status;
  const listedRows = refusals.reduce((sum, { rows }) => sum + rows, 0);
  return [
    describeProgress(status),
    ...(status.comparedAt === null ? [] : [`  ${describeComparison(status.comparedAt, status)}`]),
    ...(status.comparison === null ? [] : [`  ${describeRunning(status.comparison)}`]),
    ...(problem === null ? [] : [`  Since ${problem.since.toISOString()}: ${problem.message}`]),
    ...(refusedRows === 0
      ? []
      : [
          `  Refused rows: ${bounded(refusedRows)}. Correct the values or the view: the worker then maps the rows.`,
        ]),
    ...refusals.map(
      ({ view, column, reason, rows, since, examples }) =>
        `    ${column === null ? view : `${view}.${column}`}: ${reason} (rows: ${bounded(rows)}, ` +
        `since ${since.toISOString()}, external_id: ${examples.map((key) => JSON.stringify(key)).join(', ')})`,
    ),
    ...(listedRows < refusedRows
      ? [`    other reasons: ${bounded(refusedRows - listedRows)}`]
      : []),
    ...heldDeletions.map(
      ({ view, organization, name, rows, since }) =>
        `  ${view}: the deletion of ${count(rows)} rows of ${organization} (${name}) is held since ` +
        `${since.toISOString()}. Correct the view, or run \`npx crm-data-service mapping apply --accept-deletions\`.`,
    ),
  ];
}

function describeProgress({ asOf, lagSeconds, copiedAt, pendingChanges }: MappingStatus): string {
  if (copiedAt === null || asOf === null || lagSeconds === null) {
    return 'Mapping: the first copy is not complete. `npx crm-data-service mapping apply` continues it.';
  }
  return `Mapping: as of ${asOf}, lag ${formatDuration(lagSeconds)}, pending ${bounded(pendingChanges)}.`;
}

function describeComparison(comparedAt: Date, { repairedRows, repairedAt }: MappingStatus): string {
  const last = repairedAt === null ? '' : `, the last one ${age(repairedAt)} ago`;
  return `Last comparison: ${age(comparedAt)} ago. Rows that comparisons have corrected: ${count(repairedRows)}${last}.`;
}

function describeRunning(running: NonNullable<MappingStatus['comparison']>): string {
  const { since, reason, rows, expectedRows, secondsLeft } = running;
  const cause = reason === null ? '' : `, because of ${reason}`;
  const of = expectedRows === null ? '' : ` of about ${count(expectedRows)}`;
  const left = secondsLeft === null ? '' : `, ${formatDuration(secondsLeft)} left`;
  return `A comparison of all rows runs since ${since.toISOString()}${cause}: ${count(rows)}${of} rows${left}.`;
}

const age = (instant: Date): string =>
  formatDuration(Math.max(0, Date.now() - instant.getTime()) / 1000);

const count = (number: number): string => number.toLocaleString('en');

const bounded = (number: number): string =>
  number < maxCounted ? count(number) : `${count(maxCounted)} or more`;
