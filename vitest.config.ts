import { configDefaults, defineConfig } from 'vitest/config';

/** They replace modules, which must not be loaded before. */
const replacing = ['compaction', 'replicator'].map((name) => `test/sync/${name}.test.ts`);

export const tags = [
  {
    name: 'slow',
    description: 'More than about a second on two cores. `npm test` leaves them out.',
  },
];

export default defineConfig({
  test: {
    tags,
    globalSetup: ['test/support/global-setup.ts'],
    // Processes of their own: DuckDB is a native addon.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        // Modules are loaded once: an own process for each file took 0.7 s of processor time more.
        test: {
          name: 'shared process',
          isolate: false,
          include: ['test/**/*.test.ts'],
          // `npm run test:clickhouse` runs those of ClickHouse.
          exclude: [...configDefaults.exclude, 'test/clickhouse/**', ...replacing],
        },
      },
      { extends: true, test: { name: 'own process', include: replacing } },
    ],
  },
});
