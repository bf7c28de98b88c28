import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { withSnapshot } from '../../src/postgres/connection/pool.ts';
import { untilRead, withReadDeadline } from '../../src/postgres/connection/read-ahead.ts';
import { test as it } from '../support/fixtures.ts';

async function* batchesOf(count: number) {
  for (let batch = 0; batch < count; batch += 1) yield batch;
}

it('a snapshot is open until its batches are read, not until they are taken', async ({
  database,
}) => {
  const client = new AbortController();
  const { taken } = await withReadDeadline(undefined, () =>
    withSnapshot(database.pool, () =>
      untilRead(batchesOf(3), async (batches) => {
        let sum = 0;
        for await (const batch of batches) sum += batch;
        await once(client.signal, 'abort');
        return sum;
      }),
    ),
  );
  client.abort();
  expect(await taken).toBe(3);
});

it('a snapshot ends after a deadline if its batches are not read, and cancels its statement', async ({
  database,
}) => {
  const reading = withReadDeadline(
    undefined,
    (signal) =>
      withSnapshot(
        database.pool,
        (connection) =>
          untilRead(batchesOf(3), async (batches) => {
            for await (const _batch of batches) await connection.query('select pg_sleep(600)');
          }),
        signal,
      ),
    200,
  );
  await expect(reading).rejects.toThrow('the rows of an export were not read within 200 ms');
  const open = `select from pg_stat_activity
    where datname = current_database() and (state like 'idle in%' or query like '%pg_sleep(600)')
      and pid <> pg_backend_pid() and state <> 'idle'`;
  while ((await database.pool.query(open)).rowCount !== 0) await sleep(10);
});

it('a failure of the one who takes batches ends the snapshot', async ({ database }) => {
  const reading = withReadDeadline(undefined, () =>
    withSnapshot(database.pool, () =>
      untilRead(batchesOf(3), async () => {
        throw new Error('no disk space');
      }),
    ),
  );
  await expect(reading).rejects.toThrow('no disk space');
});
