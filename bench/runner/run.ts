import { appendFileSync, writeFileSync } from 'node:fs';
import { OperatorError } from '../../src/operator-error.ts';
import { writePage } from '../report/page.ts';
import { decimal, figureTable } from '../report/tables.ts';
import { loadAverage } from './environment.ts';
import { commandOf } from './options.ts';
import type { MeasuredSuite, Run, Suite, SuiteReport } from './suite.ts';

/** What one run of the program has found so far, and where. */
export function measuredSuite({ name, description }: Suite, report: SuiteReport): MeasuredSuite {
  const { options } = report;
  return {
    name,
    description,
    command: commandOf(name, options),
    seed: options.seed ?? null,
    loadAverage: loadAverage(),
    report,
  };
}

/** Where figures go besides the terminal. */
export type OutputFiles = {
  readonly json?: string | undefined;
  readonly html?: string | undefined;
};

/** Shows a suite to whoever looks, and writes all of the run to the files. */
export function tellSuite(latest: MeasuredSuite, run: Run, { json, html }: OutputFiles): void {
  printSuite(latest, run);
  if (json !== undefined) writeFigures(json, run);
  if (html !== undefined) writePage(html, run);
}

function printSuite({ command, loadAverage: load, report }: MeasuredSuite, run: Run): void {
  const { machine, versions } = run.environment;
  for (const passage of [report.text].flat()) {
    console.log(typeof passage === 'string' ? passage : figureTable(passage.head, passage.rows));
  }
  console.log(
    `Made by: ${command}\n` +
      `On ${machine.cores} cores with a load average of ${decimal(load)}, Node ${versions.node}.`,
  );
}

/** Throws before anything is measured for a file that could not be written in the end. */
export function requireWritableFiles({ json, html }: OutputFiles): void {
  for (const file of [json, html].filter((each) => each !== undefined)) {
    try {
      appendFileSync(file, '');
    } catch (error) {
      throw new OperatorError((error as Error).message);
    }
  }
}

function writeFigures(file: string, { environment, suites }: Run): void {
  const figures = Object.fromEntries(
    suites.map(({ name, command, seed, loadAverage: load, report }) => [
      name,
      { command, seed, loadAverage: load, ...report.figures },
    ]),
  );
  writeFileSync(file, `${JSON.stringify({ ...environment, suites: figures }, null, 2)}\n`);
}
