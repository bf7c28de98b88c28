import { configDefaults, defineConfig } from 'vitest/config';

/** Their tests leave nothing behind in the process, and replace no module. */
const sharing = [
  'commands',
  'domain',
  'engines',
  'exports',
  'http',
  'metrics',
  'openapi',
  'page',
  'postgres',
  'resources',
  'sync',
].map((folder) => `test/${folder}/**/*.test.ts`);

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
        // A process for each file took 0.7 s of processor time more, as long as many a file's tests.
        test: { name: 'shared process', include: sharing, isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'own process',
          include: ['test/**/*.test.ts'],
          // `npm run test:clickhouse` runs these.
          exclude: [...configDefaults.exclude, ...sharing, 'test/clickhouse/**'],
        },
      },
    ],
  },
});
