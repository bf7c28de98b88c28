import { type Command, InvalidArgumentError } from 'commander';
import { wholeNumberOption } from '../../src/commands/command-line.ts';
import { childEnvironment } from '../../src/settings.ts';

/** What suites can be told; each has defaults of its own for what it uses. */
export type BenchmarkOptions = {
  readonly purchases?: number;
  readonly customers?: number;
  readonly locale?: string;
  readonly seed?: number;
  readonly rounds?: number;
  readonly organizations?: number;
  readonly purchasesPerOrganization?: number;
  readonly changesPerSecond?: number;
  readonly writers?: number;
  readonly oldPercent?: number;
  readonly seconds?: number;
  readonly minutes?: number;
};

export function addBenchmarkOptions(program: Command): Command {
  const count = wholeNumberOption(1);
  return program
    .option('--purchases <number>', 'of the one organization', wholeNumberOption(1000))
    .option('--customers <number>', 'of the one organization', wholeNumberOption(1000))
    .option('--locale <name>', 'of the database, such as C')
    .option('--seed <number>', 'of the demo data', wholeNumberOption(0, 2 ** 31 - 1))
    .option('--rounds <number>', 'interleaved measurements of each thing', count)
    .option('--organizations <number>', 'that change', wholeNumberOption(1, 10_000))
    .option('--purchases-per-organization <number>', 'before the changes', wholeNumberOption(100))
    .option('--changes-per-second <number>', 'of all organizations together', count)
    .option('--writers <number>', 'connections that make them', wholeNumberOption(1, 64))
    .option(
      '--old-percent <number>',
      'of the changes are to purchases of any age, the others to the newest of a hundred',
      wholeNumberOption(0, 100),
    )
    .option('--seconds <number>', 'to measure for', positiveNumber)
    .option('--minutes <number>', 'to measure for', positiveNumber);
}

/** The command that makes a suite's figures again. */
export function commandOf(suite: string, options: BenchmarkOptions): string {
  const given = Object.entries(options).map(([name, value]) => ` ${flagOf(name)} ${value}`);
  return `${givenSettings()}npm run bench -- --suite ${suite}${given.join('')}`;
}

/** What figures depend on besides options: settings of the processes that are measured. */
const measuredSettings = [
  'DATABASE_POOL_SIZE',
  'DUCKDB_MEMORY_LIMIT',
  'DUCKDB_THREADS',
  'QUERY_CONCURRENCY',
  'UV_THREADPOOL_SIZE',
  'ANSWER_CACHE_MIB',
  'EXPORTS_PER_KEY',
  'EXPORT_CONCURRENCY',
  'EXPORT_MEMORY_LIMIT',
  'SYNC_POLL_INTERVAL_MS',
  'SYNC_CONCURRENCY',
];

/** Those that the environment has, as a shell reads them before a command. */
export function givenSettings(): string {
  const environment = childEnvironment(undefined);
  const given = measuredSettings.filter((name) => environment[name] !== undefined);
  return given.map((name) => `${name}='${environment[name]}' `).join('');
}

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function positiveNumber(text: string): number {
  const number = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0;
  if (number > 0) return number;
  throw new InvalidArgumentError('It must be a number greater than 0.');
}
