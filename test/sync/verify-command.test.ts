import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { readReport } from '../../sync/status/report.ts';
import { readVerificationRecord } from '../../sync/verification/verification-record.ts';
import { type Program, runProgram } from '../support/program.ts';
import { addOrganization } from '../support/shop.ts';
import { addPurchases, createVerifiedShop, type VerifiedShop } from '../support/verified-shop.ts';

describe('npm run sync -- verify', { timeout: 60_000 }, () => {
  let shop: VerifiedShop;
  let ids: bigint[];
  const programs: Program[] = [];
  beforeEach(async () => {
    shop = await createVerifiedShop();
    ids = await addPurchases(shop, 50);
    await shop.sync();
  });
  afterEach(async () => {
    for (const program of programs.splice(0)) await program.end('SIGKILL');
    await shop.close();
  });

  const publicId = () => encodeId('organization', shop.organization);
  const verify = async (...args: string[]) => {
    const program = runProgram('sync/main.ts', ['verify', ...args], {
      DATABASE_URL: shop.database.url,
      DATA_DIR: shop.directory,
    });
    const code = await program.exited();
    return { code, output: program.answer() };
  };

  const startWorker = async (...args: string[]): Promise<Program> => {
    const worker = runProgram('sync/main.ts', args, {
      DATABASE_URL: shop.database.url,
      DATA_DIR: shop.directory,
    });
    programs.push(worker);
    await worker.printed(/following changes/);
    return worker;
  };

  /**
   * Starts a worker and waits for its first run, which publishes anew what it finds damaged. A run
   * that failed, because Postgres was slow, is repeated: then the first one is still to come.
   */
  const startWorkerThatFollows = async () => {
    const report = () => readReport(dirname(shop.basePath()));
    const before = report()?.at;
    await startWorker();
    while (report()?.at === before || report()?.failure !== null) await sleep(20);
  };

  it('says in a line for each organization that it is equal, and exits with 0', async () => {
    await shop.database.pool.query('delete from purchases where id = $1', [ids[0]]);
    const newcomer = await addOrganization(shop.database.pool, 'Newcomer');
    expect(await verify()).toEqual({
      code: 0,
      output:
        `${publicId()} Livraria Ipê: 49 purchases compared, equal (1 changed since)\n` +
        `${encodeId('organization', newcomer)} Newcomer: nothing is published yet\n`,
    });
    // An organization that is named must have been published.
    expect((await verify('--organization', encodeId('organization', newcomer))).code).toBe(1);
    expect((await verify('--organization', publicId())).code).toBe(0);
  });

  it('says which ranges differ, to people and to scripts, and exits with 1', async () => {
    const id = ids[9] as bigint;
    await shop.damage(`delete from purchase where id = ${id}`);
    await shop.damage(
      `insert into label_platform select max(key) + 1, 'bling' from label_platform`,
    );
    const purchase = encodeId('purchase', id);
    expect(await verify()).toEqual({
      code: 1,
      output: [
        `${publicId()} Livraria Ipê: 50 purchases compared, 1 range differs, 1 dictionary is damaged`,
        `  created 2025-01-01T21:36:00.000000Z, ${purchase} to ${purchase}: 49 published, 50 in Postgres; 1 missing, 0 too many, 0 different: ${purchase}`,
        '  dictionary platform: 0 keys and 1 values repeated, 0 purchases without an entry',
        '',
      ].join('\n'),
    });
    const { code, output } = await verify('--json');
    expect(code).toBe(1);
    expect(JSON.parse(output)).toMatchObject([
      {
        organization: publicId(),
        name: 'Livraria Ipê',
        state: 'differs',
        reason: null,
        purchases: 50,
        changedSince: 0,
        differences: [
          {
            createdSince: '2025-01-01T21:36:00.000000Z',
            createdUntil: '2025-01-01T21:36:00.000000Z',
            idFrom: purchase,
            idUntil: purchase,
            publishedCount: 49,
            postgresCount: 50,
            rows: { missing: 1, surplus: 0, different: 0, examples: [purchase] },
          },
        ],
        dictionaries: [{ dictionary: 'platform', repeatedValues: 1 }],
      },
    ]);
  });

  it('names the organization whose file cannot be read, and goes on', async () => {
    const other = await addOrganization(shop.database.pool, 'Other');
    await shop.sync();
    writeFileSync(shop.basePath(), 'a'.repeat(100_000));
    const { code, output } = await verify();
    expect(code).toBe(1);
    const [own, others, ...more] = output.trim().split('\n');
    expect(own).toContain(
      `${publicId()} Livraria Ipê: cannot be compared: ${shop.basePath()} cannot be read`,
    );
    expect(others).toBe(`${encodeId('organization', other)} Other: 0 purchases compared, equal`);
    expect(more).toEqual([]);
  });

  it('runs beside a worker', async () => {
    const worker = await startWorker();
    expect((await verify()).code).toBe(0);
    expect(await worker.end('SIGTERM')).toBe(0);
  });

  describe.each(['beside a worker', 'without one'])('--repair, %s', (place) => {
    beforeEach(async () => {
      await shop.database.pool.query(`update purchases set order_number = 'new' where id = $1`, [
        ids[9],
      ]);
      await shop.sync();
      if (place === 'beside a worker') await startWorkerThatFollows();
    });

    it('reads again what differs, and nothing else', async () => {
      await shop.damage(`delete from change where sign > 0 and id = ${ids[9]}`, shop.deltaPath());
      const { code, output } = await verify('--repair');
      expect(output).toMatch(
        /1 range differs\n.*\n {2}read again; now 50 purchases compared, equal/,
      );
      expect(code).toBe(0);
      const { code: codeOfNext, output: next } = await verify('--repair', '--json');
      expect(codeOfNext).toBe(0);
      expect(JSON.parse(next)).toMatchObject([{ state: 'equal', repair: null }]);
    });

    it('rebuilds where a dictionary is damaged', async () => {
      await shop.damage(
        `insert into label_platform select max(key) + 1, 'bling' from label_platform`,
      );
      const { code, output } = await verify('--repair', '--json');
      expect(JSON.parse(output)).toMatchObject([
        {
          state: 'differs',
          reason: null,
          repair: { repairs: ['rebuild'], outcome: { state: 'equal' }, failure: null },
        },
      ]);
      expect(code).toBe(0);
    });

    it('rebuilds what cannot be read', async () => {
      writeFileSync(shop.basePath(), 'a'.repeat(100_000));
      const { code, output } = await verify('--repair');
      expect(output).toMatch(/cannot be read.*\n {2}rebuilt; now 50 purchases compared, equal/);
      expect(code).toBe(0);
    });
  });

  it('reports and records what differs where the repair fails', async () => {
    const otherShard = shop.organization % 2n === 0n ? '2/2' : '1/2';
    await startWorker('--shard', otherShard);
    await shop.damage(`delete from purchase where id = ${ids[9]}`);
    const { code, output } = await verify('--repair');
    expect(output).toMatch(/1 range differs\n.*\n {2}the repair failed: No worker has org_/);
    expect(code).toBe(1);
    const { output: json } = await verify('--repair', '--json');
    expect(JSON.parse(json)).toMatchObject([
      {
        state: 'differs',
        repair: {
          repairs: [],
          outcome: { state: 'differs' },
          failure: expect.stringContaining('start the worker of the missing shard'),
        },
      },
    ]);
    expect(readVerificationRecord(shop.directory, shop.organization)).toMatchObject({
      state: 'differs',
      repairedBy: [],
    });
  });

  it('is done by the worker itself at intervals, with the repair', async () => {
    const worker = await startWorker('run', '--verify-every', '1s');
    await worker.printed(/verified: equal to Postgres/);
    await shop.damage(`delete from purchase where id = ${ids[9]}`);
    await worker.printed(/differs from Postgres[\s\S]*repaired the differences/);
    await worker.printed(/repaired the differences[\s\S]*verified: equal to Postgres/);
    expect((await verify()).code).toBe(0);
    const status = runProgram('sync/main.ts', ['status', '--json'], {
      DATABASE_URL: shop.database.url,
      DATA_DIR: shop.directory,
    });
    expect(await status.exited()).toBe(0);
    expect(JSON.parse(status.answer()).organizations).toMatchObject([
      { state: 'live', verified: { state: 'equal', purchases: 50 } },
    ]);
  });

  it('exits with 2 after wrong usage, and with 1 where there is no such organization', async () => {
    expect((await verify('--deeply')).code).toBe(2);
    expect((await verify('--organization', 'org_x')).code).toBe(1);
    const run = runProgram('sync/main.ts', ['run', '--every', 'often'], {});
    expect(await run.exited()).toBe(2);
  });
});
