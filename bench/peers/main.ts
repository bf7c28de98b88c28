import { writeFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { version as duckdbVersion } from '@duckdb/node-api';
import { createProgram, runProgram, wholeNumberOption } from '../../src/commands/command-line.ts';
import { untilStopped } from '../../src/stop-signals.ts';
import { startServer } from '../postgres.ts';
import { decimal } from '../report.ts';
import { withScope } from '../scope.ts';
import { comparePeers, type PeerOptions } from './comparison.ts';
import { describeFigures } from './figures.ts';

type Options = PeerOptions & { readonly json?: string };

const program = createProgram(
  'npm run bench:peers --',
  'The service against ClickHouse on the same purchases, in interleaved rounds.',
)
  .option('--purchases <number>', 'of the one organization', wholeNumberOption(1000), 1_000_000)
  .option('--seed <number>', 'of the demo data', wholeNumberOption(0, 2 ** 31 - 1), 42)
  .option('--rounds <number>', 'measurements of each question', wholeNumberOption(1), 15)
  .option('--customer-index', 'give ClickHouse an index of customers; DuckDB has none')
  .option('--with-postgres', 'ask Postgres as well: slow')
  .option('--json <file>', 'also write all figures there')
  .action(async ({ json, ...options }: Options) => {
    const stopped = untilStopped();
    await withScope(stopped, async (scope) => {
      const server = await startServer(scope);
      const { figures, clickhouseVersion } = await comparePeers(scope, server, options);
      const made = { command: commandOf(options), machine: machine(clickhouseVersion) };
      console.log(`${describeFigures(figures)}\nMade by: ${made.command}\n${made.machine}`);
      if (json !== undefined) {
        writeFileSync(json, `${JSON.stringify({ ...made, figures }, null, 2)}\n`);
      }
    }).catch((error: unknown) => {
      if (!stopped.aborted) throw error;
      console.error('Stopped; nothing is left behind.');
      process.exit(130);
    });
  });

await runProgram(program);

/** The command that makes the figures again. */
function commandOf({ purchases, seed, rounds, customerIndex, withPostgres }: PeerOptions): string {
  const sizes = `--purchases ${purchases} --seed ${seed} --rounds ${rounds}`;
  const flags = `${customerIndex ? ' --customer-index' : ''}${withPostgres ? ' --with-postgres' : ''}`;
  return `npm run bench:peers -- ${sizes}${flags}`;
}

/** Where the figures come from: others at work on the machine make them worth less. */
function machine(clickhouseVersion: string): string {
  const load = decimal(loadavg()[0] ?? Number.NaN);
  const versions = `Node ${process.version}, DuckDB ${duckdbVersion()}, ClickHouse ${clickhouseVersion}`;
  return `On ${availableParallelism()} cores with a load average of ${load}: ${versions}.`;
}
