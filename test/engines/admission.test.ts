import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Admission,
  createAdmission,
  QueryTimeoutError,
} from '../../src/engines/duckdb/admission.ts';
import { createInstance } from '../../src/engines/duckdb/connection.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

// Never ends by itself: a sum over more rows than anybody waits for.
const endless = 'select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b';

describe('admission to DuckDB', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let instance: DuckDBInstance;
  let admission: Admission;

  beforeEach(async () => {
    directory = await temporaryDirectory();
    instance = await createInstance({
      threads: 2,
      memoryLimit: '256MiB',
      spillDirectory: directory.path,
    });
    admission = createAdmission(instance, { concurrency: 1, timeoutMs: 500 });
  });
  afterEach(async () => {
    await admission.close();
    instance.closeSync();
    await directory.remove();
  });

  const works = () =>
    admission.run(undefined, async (connection) => {
      const reader = await connection.runAndReadAll('select 42');
      return reader.getRows();
    });

  it('ends a question at its deadline and goes on with the next', async () => {
    await expect(
      admission.run(undefined, (connection) => connection.run(endless)),
    ).rejects.toBeInstanceOf(QueryTimeoutError);
    expect(await works()).toEqual([[42]]);
  });

  it('ends a question whose client leaves between two of its queries', async () => {
    const client = new AbortController();
    const reason = new Error('gone');
    const asking = admission.run(client.signal, async (connection) => {
      await connection.run('select 1');
      client.abort(reason);
      await sleep(50);
      await connection.run(endless);
    });
    await expect(asking).rejects.toBe(reason);
    expect(await works()).toEqual([[42]]);
  });

  it('lets a question leave the queue without waiting for those before it', async () => {
    const first = admission.run(undefined, (connection) => connection.run(endless));
    const outcome = first.catch((error: unknown) => error);
    const client = new AbortController();
    const reason = new Error('gone');
    let started = false;
    const second = admission.run(client.signal, async () => {
      started = true;
    });
    client.abort(reason);
    await expect(second).rejects.toBe(reason);
    expect(await outcome).toBeInstanceOf(QueryTimeoutError);
    expect(await works()).toEqual([[42]]);
    expect(started).toBe(false);
  });
});
