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

it('a table grows, and transactions that have read it go on with what they have read', async ({
  directory,
}) => {
  const options = { threads: 2, memoryLimit: '256MiB', spillDirectory: directory };
  const instance = await createInstance(options);
  const connection = await instance.connect();
  const tables = createPeriodTables(instance);
  const covering = (of: typeof hour) => tables.covering(byHour, of, many) as Promise<Sql>;
  const quartersIn = async (table: Sql) => {
    const [row] = await queryRows(connection, sql`select count(*) from ${table}`);
    return Number(row?.[0]);
  };
  try {
    await connection.run('begin transaction read only');
    const table = await covering(hour);
    expect(await quartersIn(table)).toBe(4);
    const [grown] = await Promise.all([covering(january), covering(hour)]);
    expect(await quartersIn(grown)).toBe(0);
    expect(await quartersIn(table)).toBe(4);
    await connection.run('commit');
    expect(await quartersIn(grown)).toBe(30 * 96 + 1);
    expect(await quartersIn(table)).toBe(4);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
});
