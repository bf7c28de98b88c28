import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../src/postgres/migrate.ts';
import { createTestDatabase, type TestDatabase } from './support/postgres.ts';

describe('migrate', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  it('does nothing the second time', async () => {
    expect(await migrate(database.url)).toEqual([]);
  });

  it('applies each file once when it runs from two places at once', async () => {
    await database.pool.query('drop schema public cascade; create schema public');
    const runs = await Promise.all([migrate(database.url), migrate(database.url)]);
    expect(runs.flat().sort()).toEqual([
      '001.do.resources.sql',
      '002.do.purchase-changes.sql',
      '003.do.search.sql',
      '004.do.rate-limits.sql',
    ]);
    expect(runs.some((applied) => applied.length === 0)).toBe(true);
  });
});
