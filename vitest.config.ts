import { configDefaults, defineConfig } from 'vitest/config';

export const tags = [
  {
    name: 'slow',
    description: 'More than about a second on two cores. `npm test` leaves them out.',
  },
];

/** A test that hangs fails after these. None is reached on a machine that other processes keep busy. */
export const timeouts = {
  testTimeout: 600_000,
  hookTimeout: 600_000,
  expect: { poll: { timeout: 120_000 } },
};

export default defineConfig({
  test: {
    tags,
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Processes of their own: DuckDB is a native addon.
    pool: 'forks',
    maxWorkers: 2,
    ...timeouts,
    // Modules are loaded once: an own process for each file took 0.7 s of processor time more.
    isolate: false,
    // `npm run test:clickhouse` runs those of ClickHouse.
    exclude: [...configDefaults.exclude, 'test/clickhouse/**'],
  },
});
