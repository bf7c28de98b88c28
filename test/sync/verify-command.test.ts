import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { readVerificationRecord } from '../../sync/verification/verification-record.ts';
import { addOrganization } from '../support/shop.ts';
import { addVariedPurchases, verifiedTest } from '../support/verified-shop.ts';

const it = verifiedTest
  /** The ids of 50 purchases of `published`. */
  .extend('ids', ({ published }) => addVariedPurchases(published, 50))
  /** A base with these purchases, and a log that changes the tenth of them. */
  .extend('changedId', async ({ published, ids }) => {
    const [id] = ids.slice(9) as [bigint];
    await published.sync();
    await published.database.pool.query(`update purchases set order_number = 'x' where id = $1`, [
      id,
    ]);
    await published.sync();
    return id;
  })
  .extend('publicId', ({ published }) => encodeId('organization', published.organization))
  .extend('verify', ({ program }) => async (...args: string[]) => {
    const command = program('sync/main.ts', ['verify', ...args]);
    const code = await command.exited();
    return { code, output: command.stdout() };
  })
  /** The output of `verify --json`. */
  .extend('verifyAsJson', ({ verify }) => async (...args: string[]) => {
    const { code, output } = await verify('--json', ...args);
    return { code, verifications: JSON.parse(output) };
  })
  .extend('startWorker', ({ program }) => async (...args: string[]) => {
    const worker = program('sync/main.ts', args);
    await worker.printed(/following changes/);
    return worker;
  });

// First, because the worker verifies the organizations of all tests.
describe('a worker with VERIFY_EVERY', () => {
  it('verifies and repairs each organization at intervals, also after its clock went back', {
    tags: ['slow'],
  }, async ({ published, publicId, ids, verify, startWorker, program }) => {
    await published.sync();
    const later = { at: '2999-01-01T00:00:00Z', state: 'equal', purchases: 50, differences: 0 };
    const record = join(published.folder, 'VERIFIED');
    writeFileSync(record, JSON.stringify(later));
    const worker = await startWorker('run', '--verify-every', '1s');
    await worker.printed(/verified: equal to Postgres/);
    await published.damage(`delete from purchase where id = ${ids[9]}`);
    await worker.printed(/differs from Postgres[\s\S]*repaired the differences/);
    await worker.printed(/repaired the differences[\s\S]*verified: equal to Postgres/);
    expect((await verify('--organization', publicId)).code).toBe(0);
    const status = program('sync/main.ts', ['status', '--json']);
    expect(await status.exited()).toBe(0);
    expect(JSON.parse(status.stdout()).organizations).toMatchObject([
      { state: 'live', verified: { state: 'equal', purchases: 50 } },
    ]);
    await worker.end('SIGTERM');
  });
});

describe('npx crm-data-service sync verify', () => {
  it('prints a line for each organization and exits with 0 if all are equal', async ({
    published,
    publicId,
    ids,
    verify,
  }) => {
    await published.sync();
    await published.database.pool.query('delete from purchases where id = $1', [ids[0]]);
    const empty = encodeId('organization', await addOrganization(published.database.pool, 'New'));
    const { code, output } = await verify();
    expect(output.split('\n').slice(-3)).toEqual([
      `${publicId} Livraria Ipê: 49 purchases compared, equal (1 changed since)`,
      `${empty} New: nothing is published yet`,
      '',
    ]);
    expect(code).toBe(0);
    // An organization that is named must have been published.
    expect((await verify('--organization', empty)).code).toBe(1);
  });

  it('prints which purchases differ and exits with 1, and rebuilds with --repair', {
    tags: ['slow'],
  }, async ({ published, publicId, ids, verify, verifyAsJson }) => {
    await published.sync();
    const id = ids[9] as bigint;
    await published.damage(`delete from purchase where id = ${id}`);
    const purchase = encodeId('purchase', id);
    expect(await verify('--organization', publicId)).toEqual({
      code: 1,
      output: [`${publicId} Livraria Ipê: 50 purchases compared, 1 differs: ${purchase}`, ''].join(
        '\n',
      ),
    });
    const { code, verifications } = await verifyAsJson('--organization', publicId);
    expect(code).toBe(1);
    expect(verifications).toMatchObject([
      {
        organization: publicId,
        name: 'Livraria Ipê',
        state: 'differs',
        reason: null,
        purchases: 50,
        changedSince: 0,
        differing: 1,
        examples: [purchase],
      },
    ]);
    const { log } = published.current();
    const repaired = await verify('--repair', '--organization', publicId);
    expect(repaired.output).toMatch(/1 differs: .*\n {2}rebuilt; now 50 purchases compared, equal/);
    expect(repaired.code).toBe(0);
    expect(published.current().log).not.toBe(log);
    expect(await verifyAsJson('--repair', '--organization', publicId)).toMatchObject({
      code: 0,
      verifications: [{ state: 'equal', repair: null }],
    });
  });

  it('continues after a file that cannot be read, and rebuilds it with --repair', {
    tags: ['slow'],
  }, async ({ published, publicId, changedId: _, verify }) => {
    const other = await addOrganization(published.database.pool, 'Other');
    await published.sync([published.organization, other]);
    writeFileSync(published.basePath(), 'a'.repeat(100_000));
    const { code, output } = await verify();
    expect(code).toBe(1);
    const [damaged, next] = output.trim().split('\n').slice(-2);
    expect(damaged).toContain(
      `${publicId} Livraria Ipê: cannot be compared: ${published.basePath()} cannot be read`,
    );
    expect(next).toBe(`${encodeId('organization', other)} Other: 0 purchases compared, equal`);
    const repaired = await verify('--repair', '--organization', publicId);
    expect(repaired.output).toMatch(
      /cannot be read.*\n {2}rebuilt; now 50 purchases compared, equal/,
    );
    expect(repaired.code).toBe(0);
  });

  it('exits with 2 after wrong usage, and with 1 if the organization does not exist', {
    tags: ['slow'],
  }, async ({ verify, program }) => {
    expect((await verify('--deeply')).code).toBe(2);
    expect((await verify('--organization', 'org_x')).code).toBe(1);
    expect(await program('sync/main.ts', ['run', '--every', 'often']).exited()).toBe(2);
  });
});

describe('npx crm-data-service sync verify --repair', () => {
  it('reports and records the differences if the repair fails', { tags: ['slow'] }, async ({
    published,
    publicId,
    ids,
    verify,
    verifyAsJson,
    startWorker,
  }) => {
    await published.sync();
    const otherShard = published.organization % 2n === 0n ? '2/2' : '1/2';
    const worker = await startWorker('--shard', otherShard);
    await published.damage(`delete from purchase where id = ${ids[9]}`);
    const { code, output } = await verify('--repair', '--organization', publicId);
    expect(output).toMatch(/1 differs: .*\n {2}the repair failed: No worker has org_/);
    expect(code).toBe(1);
    const { verifications } = await verifyAsJson('--repair', '--organization', publicId);
    expect(verifications).toMatchObject([
      {
        state: 'differs',
        repair: {
          outcome: { state: 'differs' },
          failure: expect.stringContaining('start the worker of the missing shard'),
        },
      },
    ]);
    const record = readVerificationRecord(published.directory, published.organization);
    expect(record).toMatchObject({ state: 'differs', differences: 1 });
    await worker.end('SIGTERM');
  });

  it('lets a running worker rebuild', { tags: ['slow'] }, async ({
    published,
    publicId,
    changedId: id,
    verifyAsJson,
    startWorker,
  }) => {
    const worker = await startWorker('run');
    const { log } = published.current();
    await published.damage(`delete from purchase where id = ${id - 1n}`);
    expect(await verifyAsJson('--repair', '--organization', publicId)).toMatchObject({
      code: 0,
      verifications: [
        {
          state: 'differs',
          differing: 1,
          repair: { outcome: { state: 'equal', purchases: 50 }, failure: null },
        },
      ],
    });
    expect(published.current().log).not.toBe(log);
    await worker.end('SIGTERM');
  });
});
