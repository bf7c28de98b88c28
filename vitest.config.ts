import { configDefaults, defineConfig } from 'vitest/config';

export const tags = [
  {
    name: 'slow',
    description: 'More than about a second on two cores. `npm test` leaves them out.',
  },
];

export default defineConfig({
  test: {
    tags,
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Processes of their own: DuckDB is a native addon.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Modules are loaded once: an own process for each file took 0.7 s of processor time more.
    isolate: false,
    // `npm run test:clickhouse` runs those of ClickHouse.
    exclude: [...configDefaults.exclude, 'test/clickhouse/**'],
  },
});
