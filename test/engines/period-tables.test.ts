import sql, { type Sql } from 'sql-template-tag';
import { expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import { createInstance, queryRows } from '../../src/duckdb/connection.ts';
import { createPeriodTables } from '../../src/engines/duckdb/calendar/period-tables.ts';
import { test as it } from '../support/fixtures.ts';

const bounds = (since: string, until: string) => ({
  since: parseInstant(since, 'down') as bigint,
  until: parseInstant(until, 'down') as bigint,
});
const hour = bounds('2026-03-29T00:00:00Z', '2026-03-29T00:59:00Z');
const january = bounds('2026-01-01T00:00:00Z', '2026-01-31T00:00:00Z');
const many = 1e9;
const byHour = { interval: 'hour' } as const;
const byDay = { interval: 'day' } as const;

it('a transaction gets no table that is created or replaced after its first one', async ({
  directory,
}) => {
  const options = { threads: 2, memoryLimit: '256MiB', spillDirectory: directory };
  const instance = await createInstance(options);
  const connection = await instance.connect();
  const shared = createPeriodTables(instance);
  const quartersIn = async (table: Sql | null) => {
    const [row] = await queryRows(connection, sql`select count(*) from ${table as Sql}`);
    return Number(row?.[0]);
  };
  try {
    await connection.run('begin transaction read only');
    const earlier = shared.of(connection);
    const table = await earlier.covering(byHour, hour, many);
    expect(await quartersIn(table)).toBe(4);
    expect(await earlier.covering(byHour, january, many)).toBeNull();
    expect(await earlier.covering(byDay, hour, many)).toBeNull();
    const again = await earlier.covering(byHour, hour, many);
    expect(await quartersIn(again)).toBe(4);
    expect(await quartersIn(table)).toBe(4);
    await connection.run('commit');
    await connection.run('begin transaction read only');
    const later = shared.of(connection);
    for (const [calendar, of, quarters] of [
      [byHour, january, 30 * 96 + 1],
      [byDay, hour, 4],
      [byHour, hour, 4],
    ] as const) {
      expect(await quartersIn(await later.covering(calendar, of, many))).toBe(quarters);
    }
    await connection.run('commit');
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
});
