import { type Command, InvalidArgumentError } from 'commander';
import { wholeNumberOption } from '../../src/commands/command-line.ts';
import { childEnvironment } from '../../src/settings/settings.ts';

/** The options of all suites. Each suite has defaults for those that it uses. */
export type BenchmarkOptions = {
  readonly purchases?: number;
  readonly customers?: number;
  readonly seed?: number;
  readonly rounds?: number;
  readonly organizations?: number;
  readonly purchasesPerOrganization?: number;
  readonly changesPerSecond?: number;
  readonly readers?: number;
  readonly seconds?: number;
  readonly withoutPostgres?: boolean;
};

export function addBenchmarkOptions(program: Command): Command {
  const count = wholeNumberOption(1);
  return program
    .option('--purchases <number>', 'of the single organization', wholeNumberOption(1000))
    .option('--customers <number>', 'of the single organization', wholeNumberOption(1000))
    .option('--seed <number>', 'of the demo data', wholeNumberOption(0, 2 ** 31 - 1))
    .option('--rounds <number>', 'interleaved measurements of each query', count)
    .option('--organizations <number>', 'that change', wholeNumberOption(1, 10_000))
    .option('--purchases-per-organization <number>', 'before the changes', wholeNumberOption(100))
    .option('--changes-per-second <number>', 'of all organizations together', count)
    .option(
      '--readers <number>',
      'clients that request statistics of every organization, once a second',
      wholeNumberOption(0, 100),
    )
    .option('--seconds <number>', 'duration of the measurement', positiveNumber)
    .option(
      '--without-postgres',
      'do not measure the API over Postgres, which takes seconds a query',
    );
}

/** The options of a suite: the given ones, and its defaults. */
export function optionsOf(defaults: BenchmarkOptions, given: BenchmarkOptions): BenchmarkOptions {
  const names = Object.keys(defaults) as (keyof BenchmarkOptions)[];
  return Object.fromEntries(names.map((name) => [name, given[name] ?? defaults[name]]));
}

/** The arguments for these options. */
export function argumentsOf(options: BenchmarkOptions): string {
  const flags = Object.entries(options).map(([name, value]) => {
    const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (value === undefined || value === false) return '';
    return value === true ? ` ${flag}` : ` ${flag} ${value}`;
  });
  return flags.join('');
}

/** The settings of the measured processes that change figures. */
const measuredSettings = [
  'DATABASE_POOL_SIZE',
  'DUCKDB_MEMORY_LIMIT',
  'DUCKDB_THREADS',
  'QUERY_CONCURRENCY',
  'UV_THREADPOOL_SIZE',
  'RESPONSE_CACHE_MIB',
  'EXPORTS_PER_KEY',
  'EXPORT_CONCURRENCY',
  'EXPORT_MEMORY_LIMIT',
  'SYNC_POLL_INTERVAL_MS',
  'SYNC_CONCURRENCY',
];

/** Those that are set, as a shell reads them before a command. */
export function measuredEnvironment(): string {
  const environment = childEnvironment(undefined);
  const given = measuredSettings.filter((name) => environment[name] !== undefined);
  return given.map((name) => `${name}='${environment[name]}' `).join('');
}

function positiveNumber(text: string): number {
  const number = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0;
  if (number > 0) return number;
  throw new InvalidArgumentError('It must be a number greater than 0.');
}
