import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe } from 'vitest';
import { test as it } from '../../support/fixtures.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { hasClickHouse } from '../store.ts';
import { everyQuestionOf } from './every-question.ts';
import { createReaders } from './reader.ts';
import { runScenario, scenario } from './scenario.ts';

/** Each lane runs one scenario after another. A scenario waits for Postgres, files and DuckDB most of its time. */
const lanes = 3;
const numRuns = Math.ceil(Number(process.env.RANDOM_QUERIES ?? 9) / lanes);
const maxShrinkMs = 60_000;

it.beforeAll(async ({ database: { pool } }) => {
  await pool.query(readFileSync(new URL('oracle/calendar.sql', import.meta.url), 'utf8'));
});

const engines = hasClickHouse ? (['clickhouse'] as const) : (['duckdb', 'postgres'] as const);

it.for(engines)(
  'each value of each parameter has the answers of plain SQL on Postgres, also after changes: %s',
  { tags: hasClickHouse ? ['slow'] : [] },
  async (engine, { database: { pool }, newDirectory }) => {
    const readers = createReaders(pool);
    const scenario = everyQuestionOf(engine);
    await runScenario(pool, newDirectory, readers, scenario).finally(readers.close);
  },
);

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
