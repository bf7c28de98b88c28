import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { defaultShortcuts } from '../../src/duckdb/shortcuts.ts';
import { listPurchases } from '../../src/engines/duckdb/list/list.ts';
import { createServedOrganizations } from '../../src/engines/duckdb/serving/served-organizations.ts';
import { createTickReader } from '../../src/purchase-store/ticks/published-tick.ts';
import { test } from '../support/fixtures.ts';
import { purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';
import { publishFiles, publishTestTick } from '../support/store-files.ts';
import { duckdbOptions } from '../support/sync.ts';

const shop = 1n;
const bought = (id: bigint) => recordsOf([upsertLine(purchaseRow({ id }))]);

const it = test.extend('served', async ({ newDirectory }, { onCleanup }) => {
  const instance = await createInstance(duckdbOptions(newDirectory));
  const organizations = createServedOrganizations(instance, {
    dataDirectory: newDirectory,
    ticks: createTickReader(newDirectory),
    maxBytes: 2 ** 30,
    shortcuts: defaultShortcuts,
    onError: (_id, error) => {
      throw error;
    },
  });
  onCleanup(async () => {
    await organizations.close();
    instance.closeSync();
  });
  const log = publishFiles(newDirectory, shop, bought(1n));
  return {
    /** Publishes a purchase with the number of the tick. */
    async publish(tick: number) {
      if (tick > 1) log.append(bought(BigInt(tick)), tick);
      publishTestTick(newDirectory, tick, { logEnds: { [String(shop)]: log.end().bytes } });
      while ((await organizations.version(shop, null))?.asOf !== BigInt(tick)) await sleep(5);
    },
    /** A query whose transaction begins after `end`. No change is committed meanwhile. */
    async beginLate(begin: () => void, end: Promise<void>) {
      const connection = await instance.connect();
      const run = connection.run.bind(connection);
      connection.run = async (...args) => {
        if (args[0].startsWith('begin')) {
          begin();
          await end;
        }
        return run(...args);
      };
      await organizations.use(shop, null, connection, async () => {});
    },
    organizations,
    /** What queries show, each on a connection of its own. */
    async connected() {
      const connection = await instance.connect();
      return () =>
        organizations.use(shop, null, connection, async ({ generation, version: { asOf } }) => {
          const query = { filters: {}, limit: 100 };
          const page = await listPurchases(connection, generation, query, defaultShortcuts);
          return { newest: page.purchases[0]?.id, asOf };
        });
    },
  };
});

it('a response states the instant of the batches that it shows, not of a later tick', async ({
  served: { publish, beginLate, connected },
}) => {
  const [second, third, fourth] = [await connected(), await connected(), await connected()];
  await publish(1);
  const [began, ending] = [signalled(), signalled()];
  const reading = beginLate(began.signal, ending.promise);
  await began.promise;
  const shown: ReturnType<typeof second>[] = [];
  for (const [index, show] of [second, third].entries()) {
    await publish(index + 2);
    // The second waits for the query that begins late, and the third for the second.
    shown.push(show());
    await setImmediate();
  }
  await publish(4);
  ending.signal();
  await reading;
  const all = [...(await Promise.all(shown)), await fourth()];
  for (const { newest, asOf } of all) expect(newest).toBe(asOf);
  expect(all.at(-1)).toEqual({ newest: 4n, asOf: 4n });
});

it('is not served while changes are applied that the last query could not read', async ({
  served: { organizations, publish, connected },
}) => {
  const show = await connected();
  await publish(1);
  await show();
  await show();
  await publish(2);
  await expect(organizations.version(shop, 'another database')).resolves.toBeNull();
  await sleep(150);
  expect(organizations.state()).toEqual({ open: 1, oldest: null });
});

function signalled() {
  let signal = () => {};
  const promise = new Promise<void>((resolve) => {
    signal = resolve;
  });
  return { signal, promise };
}
