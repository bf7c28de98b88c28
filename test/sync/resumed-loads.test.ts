import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { createPool } from '../../src/postgres/connection/pool.ts';
import type { Step } from '../support/failpoints/failpoints.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import { heldBuilds, withBuilder } from '../support/held-builds.ts';
import { publishedFiles } from '../support/published-files.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';

/** So many that `program` loads them into a base. */
const purchases = 1_200;
const limits = { loadChunkRows: 500, maxPurchasesWithoutBase: 0 };

const it = test
  /** The rows that a load has when it begins or resumes, of each load. */
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('begun', ({}): number[] => [])
  /** Replaces the loads of a worker: calls `atEnd` after the last row. */
  .extend(
    'observed',
    ({ begun }) =>
      (atEnd = () => {}) =>
        withBuilder((builder) => ({
          load(group, build) {
            let isBegun = false;
            return builder.load(group, {
              ...build,
              onProgress(progress) {
                build.onProgress(progress);
                if (!isBegun) begun.push(progress.loaded);
                else if (progress.loaded === purchases) atEnd();
                isBegun = true;
              },
            });
          },
        })),
  )
  /** Starts a worker that is killed at a step of the load. */
  .extend('killAt', ({ add, program }) => async (step: Step) => {
    await add(purchases);
    const worker = program('test/support/failpoints/worker.ts', ['load', step]);
    await worker.exited();
    expect(worker.child.signalCode, worker.output()).toBe('SIGKILL');
  });

describe('a load', { tags: ['slow'] }, () => {
  const runs = {
    'the first load': (worker: TestWorker, id: bigint) => worker.once([id]),
    'a rebuild': (worker: TestWorker, id: bigint) => worker.rebuild(id),
  };

  it.for(Object.entries(runs))(
    'resumes at its end if a connection is lost after its last row: %s',
    async ([kind, run], {
      proxy,
      directory,
      organizationId,
      folder,
      add,
      begun,
      observed,
      expectEqual,
    }) => {
      const pool = createPool(proxy.url, { max: 4, applicationName: 'test' });
      let messages = 0;
      const replace = observed(() => {
        proxy.messagesLeft = Math.floor(messages);
      });
      const worker = await createTestWorker(pool, directory, { ...limits, replace });
      await add(purchases);
      if (kind === 'a rebuild') {
        messages = Number.POSITIVE_INFINITY;
        await worker.once([organizationId]);
        begun.length = 0;
      }
      const before = publishedFiles(folder)?.base;
      let failures = 0;
      for (messages = 0; publishedFiles(folder)?.base === before; messages += 1 + messages / 2) {
        await run(worker, organizationId).catch(() => {
          failures += 1;
        });
        proxy.messagesLeft = Number.POSITIVE_INFINITY;
        await add(1);
      }
      expect(failures).toBeGreaterThan(5);
      expect(begun).toEqual(begun.map((_, index) => (index === 0 ? 0 : purchases)));
      await worker.once([organizationId]);
      await worker.close();
      await pool.end();
      await expectEqual();
    },
  );

  it.for<Step>([
    'after the base is named',
    'after the new files are written',
    'before CURRENT is replaced',
  ])(
    'resumes at its end after a SIGKILL of the worker %s',
    async (step, { killAt, openWorker, organizationId, begun, observed, folder, expectEqual }) => {
      await killAt(step);
      expect(publishedFiles(folder)).toBeNull();
      const worker = await openWorker({ ...limits, replace: observed() });
      await worker.once([organizationId]);
      expect(begun).toEqual([purchases]);
      await expectEqual();
    },
  );

  it('writes nothing to a published base, also after a SIGKILL of the worker that published it', async ({
    killAt,
    openWorker,
    organizationId,
    folder,
    expectEqual,
  }) => {
    await killAt('after CURRENT is replaced');
    const base = join(folder, publishedFiles(folder)?.base as string);
    expect(statSync(base).nlink).toBe(2);
    const content = readFileSync(base);
    const { replace, begun, end } = heldBuilds('load');
    const worker = await openWorker({ ...limits, replace });
    const rebuilding = worker.rebuild(organizationId);
    await begun;
    expect(readFileSync(base).equals(content)).toBe(true);
    end();
    await rebuilding;
    await expectEqual();
  });
});
