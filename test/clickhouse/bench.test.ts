import { chmod } from 'node:fs/promises';
import { expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { runProgram } from '../support/program.ts';

/** Fails by itself if two responses differ. */
test('the benchmark of all engines compares DuckDB, ClickHouse and Postgres before and after changes', {
  tags: ['slow'],
}, async ({ directory, onTestFinished }) => {
  // If root runs the test, Postgres runs as another user.
  await chmod(directory, 0o755);
  const args = ['--suite', 'all-engines', '--purchases', '1000', '--rounds', '1'];
  const program = runProgram('bench/main.ts', args, { TMPDIR: directory });
  onTestFinished(async () => {
    if (program.child.exitCode === null) await program.end('SIGINT');
  });
  const code = await program.exited();
  // The end of the output has the reason.
  expect(code, program.output().slice(-3000)).toBe(0);
  const output = program.output();
  expect(output).toContain('without changes since the load');
  expect(output).toContain('with one purchase in a hundred changed');
  expect(output.match(/│ time series by week/g)).toHaveLength(2);
});
