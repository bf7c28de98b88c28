import { defineConfig } from 'vitest/config';
import { tags, timeouts } from './vitest.config.ts';

/** The tests of ClickHouse, and the contract of engines over it. */
export default defineConfig({
  test: {
    tags,
    globalSetup: ['test/support/global-setup.ts', 'test/clickhouse/global-setup.ts'],
    include: [
      'test/clickhouse/**/*.test.ts',
      'test/engines/{contract,time-zones}.test.ts',
      'test/engines/random-questions/random-questions.test.ts',
      'test/http/export.test.ts',
    ],
    pool: 'forks',
    maxWorkers: 2,
    isolate: false,
    ...timeouts,
  },
});
