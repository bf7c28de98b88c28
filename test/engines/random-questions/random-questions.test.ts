import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe } from 'vitest';
import { test as it } from '../../support/fixtures.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { hasClickHouse } from '../store.ts';
import { everyQuestionOf } from './every-question.ts';
import { createReaders } from './reader.ts';
import { runScenario, scenario } from './scenario.ts';
import { type Settings, shortcutsIn } from './settings.ts';

/** Each lane runs one scenario after another. A scenario waits for Postgres, files and DuckDB most of its time. */
const lanes = 3;
const numRuns = Math.ceil(Number(process.env.RANDOM_QUERIES ?? 9) / lanes);
const maxShrinkMs = 60_000;

it.beforeAll(async ({ database: { pool } }) => {
  await pool.query(readFileSync(new URL('oracle/calendar.sql', import.meta.url), 'utf8'));
});

type Case = Omit<Settings, 'worker'> & { readonly mode: string };
const usual = {};
const ofFiles: readonly Case[] = [
  { engine: 'duckdb', mode: 'usual', shortcuts: usual },
  { engine: 'postgres', mode: 'usual', shortcuts: usual },
];
const slow: readonly Case[] = [
  { engine: 'duckdb', mode: 'forced', shortcuts: shortcutsIn(() => 'forced') },
  { engine: 'duckdb', mode: 'off', shortcuts: shortcutsIn(() => 'off') },
];
const ofClickHouse: readonly Case[] = [{ engine: 'clickhouse', mode: 'usual', shortcuts: usual }];

const groups = hasClickHouse
  ? [{ tags: ['slow'], cases: ofClickHouse }]
  : [
      { tags: [], cases: ofFiles },
      { tags: ['slow'], cases: slow },
    ];

describe.each(groups)('each value of each parameter', ({ tags, cases }) => {
  it.for(cases)(
    'has the answers of plain SQL on Postgres, also after changes: $engine, shortcuts $mode',
    { tags: [...tags] },
    async ({ engine, shortcuts }, { database: { pool }, newDirectory }) => {
      const readers = createReaders(pool);
      const scenario = everyQuestionOf({ engine, shortcuts });
      await runScenario(pool, newDirectory, readers, scenario).finally(readers.close);
    },
  );
});

describe('random questions about random shops', () => {
  it('have the answers of plain SQL on Postgres, with each shortcut off, forced or as usual', {
    timeout: 600_000 + numRuns * 60_000,
  }, async ({ database: { pool } }) => {
    const readers = createReaders(pool);
    let failed: number | null = null;
    let shrinksUntil = Number.POSITIVE_INFINITY;
    const runLane = async (lane: number): Promise<void> => {
      const property = fc.asyncProperty(scenario, async (each) => {
        // The other lanes end, and after some time the smallest case so far is shown.
        if ((failed ?? lane) !== lane || performance.now() > shrinksUntil) return;
        const directory = await temporaryDirectory();
        try {
          await runScenario(pool, directory.path, readers, each);
        } catch (error) {
          if (failed === null) shrinksUntil = performance.now() + maxShrinkMs;
          failed ??= lane;
          throw error;
        } finally {
          await directory.remove();
        }
      });
      await fc.assert(property, { numRuns });
    };
    const results = await Promise.allSettled(
      Array.from({ length: lanes }, (_, lane) => runLane(lane)),
    );
    await readers.close();
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  });
});
