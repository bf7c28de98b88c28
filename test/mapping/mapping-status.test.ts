import { Registry } from 'prom-client';
import { describe, expect, vi } from 'vitest';
import { createProgram } from '../../src/commands/command-line.ts';
import { addStatusCommand } from '../../src/commands/mapping-status.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { maxCounted, readMappingStatus } from '../../src/postgres/mapping/mapping-status.ts';
import { createWorkerMetrics } from '../../sync/metrics/metrics.ts';
import { isMappingHealthy } from '../../sync/status/health.ts';
import { readStatus } from '../../sync/status/status.ts';
import { formatStatus } from '../../sync/status/status-table.ts';
import { test } from '../support/fixtures.ts';
import { createReaderRole } from '../support/role.ts';

const asOf = '2026-05-05T10:00:00.123456Z';
/** An `as_of` after the time of the test, so that the lag is 0. */
const live = `
  insert into mapping_state (as_of, copied_at, compared_at)
  values (now() + interval '1 day', now() - interval '30 days', now() - interval '10 days');`;
const behind = `insert into mapping_state (as_of, copied_at) values ('${asOf}', '2026-05-01Z');`;
const notComparing = { comparison_running_seconds: 0, comparison_rows: 0 };
const refuse = (rows: number, view: string, column: string | null, reason: string) => `
  insert into mapping_failures (view, external_id, column_name, reason, failed_at)
  select '${view}', '${reason.slice(0, 3)}-' || i, ${column === null ? 'null' : `'${column}'`}, '${reason}', '2026-05-06Z'
  from generate_series(1, ${rows}) as i;`;

const it = test
  .extend('prepare', ({ database }) => async (statements: string) => {
    await database.pool.query(`
      truncate mapping_state, mapping_changes, mapping_failures, mapping_held_deletions; ${statements}`);
  })
  /** The section of `npx crm-data-service sync status`. */
  .extend('section', ({ database, directory }) => async (check = false) => {
    const status = await readStatus(database.pool, directory, '', []);
    expect(status.failure).toBeNull();
    const lines = formatStatus(status, { maxLagSeconds: 60, check }).split('\n');
    // The first lines are about workers and organizations.
    return lines.slice(2).join('\n');
  })
  .extend('isHealthy', ({ database }) => async (maxLagSeconds = 60) => {
    const status = await readMappingStatus(database.pool);
    return status === null || isMappingHealthy(status, maxLagSeconds);
  })
  /** The values of the mapping's metrics. */
  .extend('metrics', ({ database }) => async () => {
    const registry = new Registry();
    createWorkerMetrics(registry).followed({
      state: () => ({ lastPoll: null, organizations: [] }),
      instance: null,
      readMapping: () => readMappingStatus(database.pool),
    });
    const samples = (await registry.metrics()).matchAll(/^crm_sync_mapping_(\w+) (\S+)$/gm);
    return Object.fromEntries([...samples].map(([, name, value]) => [name, Number(value)]));
  })
  /** The output of `npx crm-data-service mapping status`. */
  .extend('run', ({ database }) => async (...args: string[]) => {
    const program = createProgram('mapping', '');
    addStatusCommand(program);
    vi.stubEnv('DATABASE_URL', database.url);
    const print = vi.spyOn(console, 'log').mockImplementation(() => {});
    try {
      await program.parseAsync(['status', ...args], { from: 'user' });
      return print.mock.calls.flat().join('\n');
    } finally {
      print.mockRestore();
      vi.unstubAllEnvs();
    }
  });

describe('the status of a mapping', () => {
  it('is empty without a mapping', async ({ prepare, section, isHealthy, metrics, run }) => {
    await prepare('');
    expect(await section()).toBe('');
    expect(await isHealthy()).toBe(true);
    expect(await metrics()).toEqual({});
    expect(await run()).toBe(
      'There is no mapping. `npx crm-data-service mapping apply` creates one.',
    );
    expect(await run('--json')).toBe('null');
  });

  it('says that the first copy is not complete, which is healthy', async ({
    prepare,
    section,
    isHealthy,
    metrics,
  }) => {
    await prepare('insert into mapping_state default values');
    expect(await section()).toBe(
      'Mapping: the first copy is not complete. `npx crm-data-service mapping apply` continues it.',
    );
    expect(await isHealthy()).toBe(true);
    expect(await metrics()).toEqual({
      ...{ pending_changes: 0, refused_rows: 0, held_deletions: 0, problem: 0 },
      ...notComparing,
      repaired_rows_total: 0,
    });
  });

  it('has the instant, the lag and the last comparison, and is not listed by --check', async ({
    prepare,
    section,
    isHealthy,
    metrics,
  }) => {
    await prepare(live);
    expect(await section()).toMatch(
      /^Mapping: as of \S+Z, lag 0 s, pending 0\.\n {2}Last comparison: 10 d ago\. Rows that comparisons have corrected: 0\.$/,
    );
    expect(await isHealthy()).toBe(true);
    expect(await section(true)).toBe('');
    const { comparison_age_seconds, ...others } = await metrics();
    expect(comparison_age_seconds).toBeGreaterThanOrEqual(10 * 86_400);
    expect(others).toEqual({
      ...{ pending_changes: 0, refused_rows: 0, held_deletions: 0, problem: 0 },
      ...{ lag_seconds: 0, repaired_rows_total: 0, ...notComparing },
    });
  });

  it('has the rows that comparisons have corrected', async ({ prepare, section, metrics }) => {
    await prepare(
      `${live} update mapping_state set repaired = 1234, repaired_at = now() - interval '12 days'`,
    );
    expect(await section()).toMatch(/corrected: 1,234, the last one 12 d ago\.$/);
    expect(await metrics()).toMatchObject({ repaired_rows_total: 1234 });
  });

  it('fails --check if the mapping is older than allowed, and says how many changes are pending', async ({
    prepare,
    section,
    isHealthy,
    metrics,
  }) => {
    await prepare(`${behind}
      insert into mapping_changes select 'mapped_purchases', i::text from generate_series(1, 12) as i`);
    const line = new RegExp(`^Mapping: as of ${asOf}, lag \\d+ d, pending 12\\.$`);
    expect(await section()).toMatch(line);
    expect(await section(true)).toMatch(line);
    expect(await isHealthy()).toBe(false);
    expect(await isHealthy(0)).toBe(true);
    const { lag_seconds, ...others } = await metrics();
    expect(lag_seconds).toBeGreaterThan(0);
    expect(others).toMatchObject({ pending_changes: 12 });
    expect(others).not.toHaveProperty('comparison_age_seconds');
  });

  it('has refused rows by view, column and reason with three keys, the most frequent first', async ({
    prepare,
    section,
    isHealthy,
    metrics,
  }) => {
    await prepare(
      live +
        refuse(1, 'mapped_customers', null, 'division by zero') +
        refuse(4, 'mapped_purchases', 'created_at', 'violates instant_check'),
    );
    const text = await section(true);
    expect(text.split('\n').slice(2)).toEqual([
      '  Refused rows: 5. Correct the values or the view: the worker then maps the rows.',
      '    mapped_purchases.created_at: violates instant_check (rows: 4, since 2026-05-06T00:00:00.000Z, external_id: "vio-1", "vio-2", "vio-3")',
      '    mapped_customers: division by zero (rows: 1, since 2026-05-06T00:00:00.000Z, external_id: "div-1")',
    ]);
    expect(await isHealthy(0)).toBe(false);
    expect(await metrics()).toMatchObject({ refused_rows: 5 });
  });

  it('counts and lists a bounded number of rows and reasons', async ({
    prepare,
    section,
    metrics,
  }) => {
    await prepare(`${live}
      insert into mapping_changes select 'mapped_purchases', i::text from generate_series(1, 20000) as i;
      insert into mapping_failures (view, external_id, reason)
      select 'mapped_purchases', i, 'order ' || i || ' is wrong' from generate_series(1, 20000) as i`);
    const lines = (await section()).split('\n');
    expect(lines[0]).toMatch(/, pending 10,000 or more\.$/);
    expect(lines[2]).toMatch(/^ {2}Refused rows: 10,000 or more\. /);
    expect(lines).toHaveLength(24);
    expect(lines.at(-1)).toBe('    other reasons: 9,980');
    expect(await metrics()).toMatchObject({
      pending_changes: maxCounted,
      refused_rows: maxCounted,
    });
  });

  it('has held deletions with the organization, and the command that accepts them', async ({
    prepare,
    section,
    isHealthy,
    metrics,
    shop,
  }) => {
    await prepare(`${live}
      insert into mapping_held_deletions
      values ('mapped_purchases', ${shop.organizationId}, 1200, '2026-05-06Z')`);
    const organization = encodeId('organization', shop.organizationId);
    expect((await section(true)).split('\n').slice(2)).toEqual([
      `  mapped_purchases: the deletion of 1,200 rows of ${organization} (Livraria Ipê) is held since ` +
        '2026-05-06T00:00:00.000Z. Correct the view, or run `npx crm-data-service mapping apply --accept-deletions`.',
    ]);
    expect(await isHealthy(0)).toBe(false);
    expect(await metrics()).toMatchObject({ held_deletions: 1200 });
  });

  it('has the comparison that runs with its cause, its progress and the rest of its time', async ({
    prepare,
    section,
    isHealthy,
    metrics,
  }) => {
    const compare = (comparison: string) =>
      prepare(`${live}
      update mapping_state set comparison = jsonb_build_object('since', now() - interval '30 minutes', ${comparison})`);
    await compare(`'reason', 'TRUNCATE of store.orders', 'rows', 1000, 'expectedRows', 3000`);
    expect((await section()).split('\n')[2]).toMatch(
      /^ {2}A comparison of all rows runs since \S+Z, because of TRUNCATE of store\.orders: 1,000 of about 3,000 rows, 60 min left\.$/,
    );
    expect(await isHealthy()).toBe(true);
    const { comparison_running_seconds: seconds, ...others } = await metrics();
    expect(seconds).toBeGreaterThan(1_799);
    expect(others).toMatchObject({ comparison_rows: 1000, comparison_expected_rows: 3000 });
    await compare(`'reason', null, 'rows', 1000, 'expectedRows', null`);
    expect((await section()).split('\n')[2]).toMatch(/ runs since \S+Z: 1,000 rows\.$/);
  });

  it('has the problem and its begin', async ({ prepare, section, isHealthy, metrics }) => {
    await prepare(`${live}
      update mapping_state set problem = 'A view is missing. Create it.', problem_since = '2026-05-06Z'`);
    expect((await section(true)).split('\n').slice(2)).toEqual([
      '  Since 2026-05-06T00:00:00.000Z: A view is missing. Create it.',
    ]);
    expect(await isHealthy(0)).toBe(false);
    expect(await metrics()).toMatchObject({ problem: 1 });
  });

  it('is the same in `mapping -- status`, and in the JSON of both commands', {
    tags: ['slow'],
  }, async ({ prepare, section, run, execute }) => {
    await prepare(behind + refuse(1, 'mapped_purchases', 'currency', 'is null'));
    expect(await run()).toBe(await section());
    const { code, output } = await execute('sync', ['status', '--json']);
    expect(code).toBe(0);
    const { lagSeconds, ...shown } = JSON.parse(output).mapping;
    expect(JSON.parse(await run('--json'))).toEqual({ ...shown, lagSeconds: expect.any(Number) });
    expect(lagSeconds).toBeGreaterThan(0);
    expect(shown).toEqual({
      asOf,
      copiedAt: '2026-05-01T00:00:00.000Z',
      pendingChanges: 0,
      refusedRows: 1,
      refusals: [
        {
          view: 'mapped_purchases',
          column: 'currency',
          reason: 'is null',
          rows: 1,
          since: '2026-05-06T00:00:00.000Z',
          examples: ['is -1'],
        },
      ],
      heldDeletions: [],
      comparison: null,
      comparedAt: null,
      repairedRows: 0,
      repairedAt: null,
      problem: null,
    });
    expect((await execute('sync', ['status', '--check'])).output).toContain('mapped_purchases');
  });

  it('needs no right on tables of the mapping but its state without a mapping', async ({
    database,
    prepare,
    directory,
  }) => {
    const reader = await createReaderRole(database);
    const pool = createPool(reader.url, { max: 1, applicationName: 'test' });
    try {
      await prepare(`revoke select on mapping_failures from ${reader.name}`);
      expect(await readMappingStatus(pool)).toBeNull();
      await prepare(live);
      const { mapping, failure } = await readStatus(pool, directory, '', []);
      expect(mapping).toBeNull();
      expect(failure?.advice).toContain('grant select on');
    } finally {
      await pool.end();
      await reader.drop();
    }
  });
});
