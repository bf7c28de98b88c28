import type { EmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import type { FigureTable } from '../report/tables.ts';
import type { Environment } from './environment.ts';
import type { BenchmarkOptions } from './options.ts';
import type { Scope } from './scope.ts';

/** The input of a suite. */
export type Bench<Options = BenchmarkOptions> = {
  readonly options: Options;
  readonly scope: Scope;
  /** One server for the whole run. Each suite creates a database in it. */
  readonly server: EmbeddedPostgres;
};

/** Sentences and tables, in the order of the report. */
export type ReportText = readonly (string | FigureTable)[];

type SuiteReport = {
  /** For the terminal and the page. */
  readonly text: ReportText;
  /** For scripts (`--json`). */
  readonly figures: object;
};

export type Suite = {
  readonly name: string;
  /** One line of the help. */
  readonly description: string;
  /** Whether it runs if no suite is named. */
  readonly isQuick: boolean;
  /** The options that the suite has, with their default values. */
  readonly defaults: BenchmarkOptions;
  run(bench: Bench): Promise<SuiteReport>;
};

/** An option with a default is always set. */
type OptionsOf<Defaults> = {
  readonly [Name in keyof Defaults & keyof BenchmarkOptions]: NonNullable<BenchmarkOptions[Name]>;
};

/** Gives `run` the types of the options that `defaults` names. */
export const defineSuite = <Defaults extends BenchmarkOptions>(
  suite: Omit<Suite, 'run'> & {
    readonly defaults: Defaults;
    run(bench: Bench<OptionsOf<Defaults>>): Promise<SuiteReport>;
  },
): Suite => suite as Suite;

/** The measurements of one run of the program so far. */
export type Run = {
  readonly environment: Environment;
  readonly suites: readonly MeasuredSuite[];
};

export type MeasuredSuite = {
  readonly name: string;
  /** Reproduces the figures. */
  readonly command: string;
  /** All options of the suite, defaults included. */
  readonly options: BenchmarkOptions;
  /** The load average of the last minute of the suite. */
  readonly loadAverage: number;
  readonly report: SuiteReport;
};
