import { writeFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { InvalidArgumentError } from 'commander';
import { createProgram, runProgram } from '../src/commands/command-line.ts';
import { untilStopped } from '../src/stop-signals.ts';
import { addBenchmarkOptions, type BenchmarkOptions, commandOf } from './options.ts';
import { startServer } from './postgres.ts';
import { decimal } from './report.ts';
import { InterruptedError, withScope } from './scope.ts';
import type { Suite } from './suite.ts';
import { engines } from './suites/engines.ts';
import { freshness } from './suites/freshness.ts';
import { lists } from './suites/lists.ts';
import { load } from './suites/load.ts';
import { memory } from './suites/memory.ts';
import { writes } from './suites/writes.ts';

const suites: readonly Suite[] = [engines, lists, load, freshness, writes, memory];

type Options = BenchmarkOptions & {
  readonly suite?: readonly Suite[];
  readonly json?: string;
};

const program = addBenchmarkOptions(
  createProgram('npm run bench --', 'Measures; compares what it can in interleaved rounds.')
    .option('--suite <name>', 'which one; may be repeated (default: the quick ones)', chosenSuite)
    .option('--json <file>', 'also write all figures there'),
)
  .addHelpText('after', `\nSuites:\n${suites.map(describeSuite).join('\n')}`)
  .action(async ({ suite, json, ...options }: Options) => {
    const stopped = interruption(untilStopped());
    const figures: Record<string, object> = {};
    await withScope(stopped, async (run) => {
      const server = await startServer(run);
      for (const { name, run: measure } of suite ?? suites.filter(({ isQuick }) => isQuick)) {
        console.log(`\n== ${name}`);
        const report = await withScope(run.signal, (scope) => measure({ options, scope, server }));
        const made = { command: commandOf(name, report.options), machine: machine() };
        console.log(`${report.text}\nMade by: ${made.command}\n${made.machine}`);
        figures[name] = { ...made, ...report.figures };
        if (json !== undefined) writeFileSync(json, `${JSON.stringify(figures, null, 2)}\n`);
      }
    }).catch((error: unknown) => {
      if (!(error instanceof InterruptedError)) throw error;
      console.error('Stopped; nothing is left behind.');
      process.exit(130);
    });
  });

await runProgram(program);

function chosenSuite(name: string, earlier: readonly Suite[] = []): Suite[] {
  const suite = suites.find((known) => known.name === name);
  if (suite !== undefined) return [...earlier, suite];
  const known = suites.map((each) => each.name).join(', ');
  throw new InvalidArgumentError(`The suites are: ${known}.`);
}

function describeSuite({ name, description, isQuick }: Suite): string {
  return `  ${name.padEnd(12)}${description}${isQuick ? '' : ' (only when it is named)'}`;
}

/** Aborted with an error of its own: a stop is no failure of what is measured. */
function interruption(stopped: AbortSignal): AbortSignal {
  const interrupted = new AbortController();
  stopped.addEventListener('abort', () => interrupted.abort(new InterruptedError('stopped')));
  return interrupted.signal;
}

/** Where the figures come from: others at work on the machine make them worth less. */
function machine(): string {
  const load = decimal(loadavg()[0] ?? Number.NaN);
  return `On ${availableParallelism()} cores with a load average of ${load}, Node ${process.version}.`;
}
