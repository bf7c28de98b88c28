import { appendFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { OperatorError } from '../../src/process/operator-error.ts';
import { untilStopped } from '../../src/process/stop-signals.ts';
import { decimal, renderTable } from '../report/tables.ts';
import { queryOnce, startServer } from '../setup/postgres.ts';
import { readEnvironment } from './environment.ts';
import { argumentsOf, type BenchmarkOptions, measuredEnvironment, optionsOf } from './options.ts';
import { withScope } from './scope.ts';
import type { MeasuredSuite, Run, Suite } from './suite.ts';

/** Runs the suites one after the other, and writes figures to `json`. Ends the process if it is stopped. */
export async function runSuites(
  suites: readonly Suite[],
  given: BenchmarkOptions,
  json: string | undefined,
): Promise<void> {
  const stopped = untilStopped();
  if (json !== undefined) requireWritable(json);
  try {
    await withScope(stopped, async (scope) => {
      const server = await startServer(scope);
      const measured: MeasuredSuite[] = [];
      const { rows } = await queryOnce(server.url, 'show server_version');
      const run = { environment: readEnvironment(rows[0].server_version), suites: measured };
      for (const suite of suites) {
        console.log(`\n== ${suite.name}`);
        const { name } = suite;
        const options = optionsOf(suite.defaults, given);
        const report = await withScope(scope.signal, (inner) =>
          suite.run({ options, scope: inner, server }),
        );
        measured.push({
          name,
          command: `${measuredEnvironment()}npm run bench -- --suite ${name}${argumentsOf(options)}`,
          options,
          loadAverage: loadavg()[0] ?? Number.NaN,
          report,
        });
        // After each suite: if a later one fails, these figures remain.
        publish(run, json);
      }
    });
  } catch (error) {
    if (!stopped.aborted) throw error;
    console.error('Stopped.');
    process.exit(130);
  }
}

/** Prints the latest suite, and writes all suites to the file. */
function publish(run: Run, json: string | undefined): void {
  const { command, loadAverage, report } = run.suites.at(-1) as MeasuredSuite;
  const { machine, versions } = run.environment;
  for (const passage of report.text) {
    console.log(typeof passage === 'string' ? passage : renderTable(passage));
  }
  console.log(
    `Made by: ${command}\n` +
      `On ${machine.cores} cores with a load average of ${decimal(loadAverage)}, Node ${versions.node}.`,
  );
  if (json !== undefined) writeFigures(json, run);
}

function writeFigures(file: string, { environment, suites }: Run): void {
  const figures = suites.map(({ name, command, options, loadAverage, report }) => [
    name,
    { command, options, loadAverage, ...report.figures },
  ]);
  const content = { ...environment, suites: Object.fromEntries(figures) };
  writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`);
}

/** Fails before the measurements if the file cannot be written after them. */
function requireWritable(file: string): void {
  try {
    appendFileSync(file, '');
  } catch (error) {
    throw new OperatorError((error as Error).message);
  }
}
