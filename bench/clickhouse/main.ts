import { createProgram, runProgram, wholeNumberOption } from '../../src/commands/command-line.ts';
import { untilStopped } from '../../src/stop-signals.ts';
import { loadAverage, readEnvironment } from '../runner/environment.ts';
import { givenSettings } from '../runner/options.ts';
import { type OutputFiles, requireWritableFiles, tellSuite } from '../runner/run.ts';
import { withScope } from '../runner/scope.ts';
import { startServer } from '../setup/postgres.ts';
import { type ComparisonOptions, compareWithClickHouse } from './comparison.ts';
import { describeFigures, plotFigures } from './figures.ts';

type Options = ComparisonOptions & OutputFiles;

const description = 'The service against ClickHouse on the same purchases, in interleaved rounds.';

const program = createProgram('npm run bench:clickhouse --', description)
  .option('--purchases <number>', 'of the one organization', wholeNumberOption(1000), 1_000_000)
  .option('--seed <number>', 'of the demo data', wholeNumberOption(0, 2 ** 31 - 1), 42)
  .option('--rounds <number>', 'measurements of each question', wholeNumberOption(1), 15)
  .option('--customer-index', 'give ClickHouse an index of customers; DuckDB has none')
  .option('--with-postgres', 'ask Postgres as well: slow')
  .option('--json <file>', 'also write all figures there')
  .option('--html <file>', 'also draw them on a page of their own')
  .action(async ({ json, html, ...options }: Options) => {
    const stopped = untilStopped();
    requireWritableFiles({ json, html });
    await withScope(stopped, async (scope) => {
      const server = await startServer(scope);
      const environment = await readEnvironment(server);
      const { figures, clickhouseVersion } = await compareWithClickHouse(scope, server, options);
      const { purchases, seed, rounds } = options;
      const measured = {
        name: 'clickhouse',
        description,
        command: commandOf(options),
        seed,
        loadAverage: loadAverage(),
        report: {
          options: { purchases, seed, rounds },
          text: [...describeFigures(figures), `ClickHouse ${clickhouseVersion}.`],
          plots: plotFigures(figures),
          figures: { clickhouseVersion, questions: figures },
        },
      };
      const run = { environment, suites: [measured] };
      tellSuite(measured, run, { json, html });
    }).catch((error: unknown) => {
      if (!stopped.aborted) throw error;
      console.error('Stopped.');
      process.exit(130);
    });
  });

await runProgram(program);

/** The command that makes the figures again. */
function commandOf({
  purchases,
  seed,
  rounds,
  customerIndex,
  withPostgres,
}: ComparisonOptions): string {
  const sizes = `--purchases ${purchases} --seed ${seed} --rounds ${rounds}`;
  const flags = `${customerIndex ? ' --customer-index' : ''}${withPostgres ? ' --with-postgres' : ''}`;
  return `${givenSettings()}npm run bench:clickhouse -- ${sizes}${flags}`;
}
