import type { EmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import type { Plot } from '../report/plots.ts';
import type { FigureTable } from '../report/tables.ts';
import type { Environment } from './environment.ts';
import type { BenchmarkOptions } from './options.ts';
import type { Scope } from './scope.ts';

/** What a suite is given to work with. */
export type Bench = {
  readonly options: BenchmarkOptions;
  readonly scope: Scope;
  /** One server for the whole run; each suite makes a database of its own in it. */
  readonly server: EmbeddedPostgres;
};

/** Sentences and tables, in the order they are read in. */
export type ReportText = readonly (string | FigureTable)[];

export type SuiteReport = {
  /** What the figures depend on, defaults included: enough to make them again. */
  readonly options: BenchmarkOptions;
  /** For a person. */
  readonly text: string | ReportText;
  /** For a person's eyes (`--html`). */
  readonly plots?: readonly Plot[];
  /** For a script (`--json`). */
  readonly figures: object;
};

export type Suite = {
  readonly name: string;
  /** One line for the help. */
  readonly description: string;
  /** Runs where no suite is named. */
  readonly isQuick: boolean;
  run(bench: Bench): Promise<SuiteReport>;
};

export type Run = {
  readonly environment: Environment;
  readonly suites: readonly MeasuredSuite[];
};

export type MeasuredSuite = {
  readonly name: string;
  readonly description: string;
  /** Makes its figures again. */
  readonly command: string;
  /** Of the demo data. */
  readonly seed: number | null;
  /** When it had ended; over the minute before. */
  readonly loadAverage: number;
  readonly report: SuiteReport;
};
