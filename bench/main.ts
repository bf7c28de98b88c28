import { InvalidArgumentError } from 'commander';
import { createProgram, runProgram } from '../src/commands/command-line.ts';
import { allEngines } from './clickhouse/all-engines.ts';
import { peers } from './peers/peers.ts';
import { addBenchmarkOptions, argumentsOf, type BenchmarkOptions } from './runner/options.ts';
import { runSuites } from './runner/run.ts';
import type { Suite } from './runner/suite.ts';
import { engines } from './suites/engines.ts';
import { exports } from './suites/export/export.ts';
import { changes } from './suites/freshness/changes.ts';
import { freshness } from './suites/freshness/freshness.ts';
import { memory } from './suites/freshness/memory.ts';
import { growth } from './suites/growth.ts';
import { http } from './suites/http/http.ts';
import { lists } from './suites/lists/lists.ts';
import { live } from './suites/live.ts';
import { load } from './suites/load.ts';
import { mapping } from './suites/mapping/mapping.ts';
import { micro } from './suites/micro.ts';
import { noisyNeighbor } from './suites/noisy-neighbor/noisy-neighbor.ts';
import { opening } from './suites/opening.ts';
import { organizations } from './suites/organizations.ts';
import { pages } from './suites/pages/pages.ts';
import { questionsSuite } from './suites/questions.ts';
import { reports } from './suites/reports.ts';
import { shortcuts } from './suites/shortcuts/shortcuts.ts';
import { steps } from './suites/steps.ts';
import { timeZones } from './suites/time-zones.ts';
import { writes } from './suites/writes/writes.ts';

const suites: readonly Suite[] = [
  engines,
  growth,
  timeZones,
  http,
  micro,
  steps,
  shortcuts,
  lists,
  questionsSuite,
  live,
  reports,
  pages,
  load,
  freshness,
  writes,
  mapping,
  memory,
  changes,
  organizations,
  opening,
  noisyNeighbor,
  exports,
  allEngines,
  peers,
];

type Options = BenchmarkOptions & { readonly suite?: readonly Suite[]; readonly json?: string };

const program = addBenchmarkOptions(
  createProgram('npm run bench --', 'Measures; compares in interleaved rounds.')
    .option(
      '--suite <name>',
      'suite to run; may be repeated (default: the quick ones)',
      chooseSuite,
    )
    .option('--json <file>', 'also write all figures to this file'),
)
  .addHelpText(
    'after',
    `\nSuites, with the options that they have:\n${suites.map(help).join('\n')}`,
  )
  .action(async ({ suite, json, ...options }: Options) => {
    const chosen = suite ?? suites.filter(({ isQuick }) => isQuick);
    await runSuites(chosen, options, json);
  });

await runProgram(program);

function chooseSuite(name: string, chosen: readonly Suite[] = []): readonly Suite[] {
  const suite = suites.find((known) => known.name === name);
  if (suite !== undefined) return chosen.includes(suite) ? chosen : [...chosen, suite];
  const known = suites.map((each) => each.name).join(', ');
  throw new InvalidArgumentError(`The suites are: ${known}.`);
}

function help({ name, description, isQuick, defaults }: Suite): string {
  const note = isQuick ? '' : ' (runs only if it is named)';
  return `  ${name.padEnd(12)}${description}${note}\n${' '.repeat(13)}${argumentsOf(defaults)}`;
}
