import { InvalidArgumentError } from 'commander';
import { createProgram, runProgram } from '../src/commands/command-line.ts';
import { untilStopped } from '../src/stop-signals.ts';
import { readEnvironment } from './runner/environment.ts';
import { addBenchmarkOptions, type BenchmarkOptions } from './runner/options.ts';
import { measuredSuite, type OutputFiles, requireWritableFiles, tellSuite } from './runner/run.ts';
import { InterruptedError, withScope } from './runner/scope.ts';
import type { MeasuredSuite, Suite } from './runner/suite.ts';
import { startServer } from './setup/postgres.ts';
import { engines } from './suites/engines.ts';
import { exports } from './suites/export/export.ts';
import { freshness } from './suites/freshness/freshness.ts';
import { memory } from './suites/freshness/memory.ts';
import { growth } from './suites/growth.ts';
import { http } from './suites/http/http.ts';
import { lists } from './suites/lists/lists.ts';
import { load } from './suites/load.ts';
import { micro } from './suites/micro.ts';
import { timeZones } from './suites/time-zones.ts';
import { writes } from './suites/writes/writes.ts';

const suites: readonly Suite[] = [
  engines,
  growth,
  timeZones,
  http,
  micro,
  lists,
  load,
  freshness,
  writes,
  memory,
  exports,
];

type Options = BenchmarkOptions & OutputFiles & { readonly suite?: readonly Suite[] };

const program = addBenchmarkOptions(
  createProgram('npm run bench --', 'Measures; compares what it can in interleaved rounds.')
    .option('--suite <name>', 'which one; may be repeated (default: the quick ones)', chosenSuite)
    .option('--json <file>', 'also write all figures there')
    .option('--html <file>', 'also draw them on a page of their own'),
)
  .addHelpText('after', `\nSuites:\n${suites.map(describeSuite).join('\n')}`)
  .action(async ({ suite, json, html, ...options }: Options) => {
    const stopped = interruption(untilStopped());
    requireWritableFiles({ json, html });
    await withScope(stopped, async (scope) => {
      const server = await startServer(scope);
      const measured: MeasuredSuite[] = [];
      const run = { environment: await readEnvironment(server), suites: measured };
      for (const each of suite ?? suites.filter(({ isQuick }) => isQuick)) {
        console.log(`\n== ${each.name}`);
        const report = await withScope(scope.signal, (inner) =>
          each.run({ options, scope: inner, server }),
        );
        const latest = measuredSuite(each, report);
        measured.push(latest);
        // After each: what was measured remains where a later one fails.
        tellSuite(latest, run, { json, html });
      }
    }).catch((error: unknown) => {
      if (!(error instanceof InterruptedError)) throw error;
      console.error('Stopped.');
      process.exit(130);
    });
  });

await runProgram(program);

function chosenSuite(name: string, earlier: readonly Suite[] = []): Suite[] {
  const suite = suites.find((known) => known.name === name);
  if (suite !== undefined) return earlier.includes(suite) ? [...earlier] : [...earlier, suite];
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
