import sql, { type Sql } from 'sql-template-tag';
import { expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import { createInstance, queryRows } from '../../src/duckdb/connection.ts';
import { createPeriodTables } from '../../src/engines/duckdb/period-tables.ts';
import { test as it } from '../support/fixtures.ts';

const bounds = (since: string, until: string) => ({
  since: parseInstant(since, 'down') as bigint,
  until: parseInstant(until, 'down') as bigint,
});
const hour = bounds('2026-03-29T00:00:00Z', '2026-03-29T00:59:00Z');
const january = bounds('2026-01-01T00:00:00Z', '2026-01-31T00:00:00Z');
const byHour = { interval: 'hour' } as const;

it('a table grows, and transactions that have read it go on with what they have read', async ({
  directory,
}) => {
  const options = { threads: 2, memoryLimit: '256MiB', spillDirectory: directory };
  const instance = await createInstance(options);
  const connection = await instance.connect();
  const tables = createPeriodTables(instance);
  const covering = (of: typeof hour) => tables.covering(byHour, of, 100_000) as Promise<Sql>;
  const quartersIn = async (table: Sql) => {
    const [row] = await queryRows(connection, sql`select count(*) from ${table}`);
    return Number(row?.[0]);
  };
  try {
    await connection.run('begin transaction read only');
    const table = await covering(hour);
    expect(await quartersIn(table)).toBe(4);
    const [grown] = await Promise.all([covering(january), covering(hour)]);
    expect(grown.text).toBe(table.text);
    expect(await quartersIn(table)).toBe(4);
    await connection.run('commit');
    // From January to the hour at the end of March.
    expect(await quartersIn(table)).toBeGreaterThan(87 * 96);
    expect(await covering(hour)).toEqual(table);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
});

it('there is no table with too many quarters, of no time, or of offsets by seconds', async ({
  directory,
}) => {
  const options = { threads: 2, memoryLimit: '256MiB', spillDirectory: directory };
  const instance = await createInstance(options);
  const tables = createPeriodTables(instance);
  const berlin = { interval: 'day', timeZone: 'Europe/Berlin' } as const;
  try {
    expect(await tables.covering(berlin, january, 30 * 96)).toBeNull();
    expect(await tables.covering(berlin, january, 40 * 96)).not.toBeNull();
    const noTime = { since: january.until, until: january.since };
    expect(await tables.covering(byHour, noTime, 100_000)).toBeNull();
    const localMeanTime = bounds('1890-01-01T00:00:00Z', '1890-02-01T00:00:00Z');
    expect(await tables.covering(berlin, localMeanTime, 100_000)).toBeNull();
    const centuries = bounds('1900-01-01T00:00:00Z', '2100-01-01T00:00:00Z');
    expect(await tables.covering(byHour, centuries, 1e9)).toBeNull();
  } finally {
    instance.closeSync();
  }
});
