import { type Command, InvalidArgumentError } from 'commander';
import { wholeNumberOption } from '../src/commands/command-line.ts';

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
  return `npm run bench -- --suite ${suite}${given.join('')}`;
}

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function positiveNumber(text: string): number {
  const number = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0;
  if (number > 0) return number;
  throw new InvalidArgumentError('It must be a number greater than 0.');
}
