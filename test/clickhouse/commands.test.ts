import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { readPublishedStatus } from '../../sync/clickhouse/clickhouse-status.ts';
import { clickHouseTest } from './fixtures.ts';

const it = clickHouseTest.extend(
  'run',
  ({ execute, server, newShop }) =>
    async (args: readonly string[], engine: 'clickhouse' | 'duckdb' = 'clickhouse') => {
      const id = encodeId('organization', newShop.organizationId);
      const environment = { ...server.environment, PURCHASES_ENGINE: engine };
      const { code, output } = await execute('sync', [...args, '--organization', id], {
        LOG_LEVEL: 'error',
        ...environment,
      });
      return { code, output };
    },
);

describe('the commands of the worker', () => {
  it('show the status of more organizations than one statement may name', async ({
    clickhouse,
    replica,
  }) => {
    await replica.add(3);
    await replica.sync();
    const others = Array.from({ length: 60_000 }, (_, index) => 10n ** 18n + BigInt(index));
    const { organizations } = await readPublishedStatus(clickhouse)([...others, replica.id]);
    expect(organizations.get(replica.id)).toMatchObject({ purchases: 3 });
  });

  it('move an organization from files to ClickHouse, work there as before, and move it back', async ({
    run,
    replica,
  }) => {
    await replica.add(50);
    expect((await run(['once', '--json'], 'duckdb')).code).toBe(0);
    expect(await run(['verify'])).toMatchObject({
      code: 1,
      output: expect.stringContaining('nothing is published yet'),
    });

    const { code, output } = await run(['once', '--json']);
    expect(code).toBe(0);
    const [status] = JSON.parse(output).organizations;
    const { loadId } = await replica.generation();
    expect(status).toMatchObject({ purchases: 50, changes: 0, pendingChanges: 0, failure: null });
    expect(status.fileBytes).toBeGreaterThan(0);
    await replica.expectEqual();

    await replica.change('id % 2 = 0');
    const behind = JSON.parse((await run(['status', '--json'])).output).organizations[0];
    expect(behind).toMatchObject({ purchases: 50, pendingChanges: 25 });
    expect(await run(['verify'])).toMatchObject({
      code: 0,
      output: expect.stringContaining('25 purchases compared, equal (25 changed since)'),
    });
    expect((await run(['rebuild'])).code).toBe(0);
    expect((await replica.generation()).loadId).not.toBe(loadId);
    await replica.expectEqual();

    await replica.change('id % 5 = 0');
    const back = await run(['once', '--json'], 'duckdb');
    expect(JSON.parse(back.output).organizations[0]).toMatchObject({ pendingChanges: 0 });
    expect(await run(['verify'], 'duckdb')).toMatchObject({
      code: 0,
      output: expect.stringContaining('50 purchases compared, equal'),
    });
  });
});
