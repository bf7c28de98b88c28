import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import { NoGenerationError } from '../../src/domain/purchase-engine.ts';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { applyMapping } from '../../src/postgres/mapping/apply.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { createRandomSource, type RandomSource } from '../../src/seed/random-source.ts';
import { startWorkers } from '../support/chaos/workers.ts';
import { isConnectionLoss } from '../support/chaos/writers.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres-server.ts';
import { expectRowsOfOthers, startOtherWriters } from './other-writers.ts';

// MAPPING_SEED=… repeats the random values of a run; its timing differs.
const seed = Number(process.env.MAPPING_SEED ?? Math.floor(Math.random() * 1_000_000_000));
const seconds = Number(process.env.MAPPING_SECONDS ?? 20);

const schema = `
  create schema store;
  create table store.clients (id bigint primary key, name text);
  create table store.orders (
    id bigint not null, client_id bigint, cents bigint not null, month date not null default '2026-01-01',
    primary key (id, month)
  ) partition by range (month);
  create table store.orders_1 partition of store.orders for values from ('2026-01-01') to ('2026-02-01');
  create table store.orders_2 partition of store.orders for values from ('2026-02-01') to ('2026-03-01');
  create view mapped_customers as select id as external_id, 1::bigint as organization_id, name from store.clients;
  create view mapped_purchases as
    select id as external_id, 1::bigint as organization_id, client_id as customer_external_id,
      cents as purchase_value_in_cents, timestamptz '2026-01-01Z' as created_at, id::text as order_number
    from store.orders;
  insert into mapping_sources (view, source, key) values
    ('mapped_customers', 'store.clients', 'id'), ('mapped_purchases', 'store.orders', 'id');
  insert into organizations (name) values ('Shop'), ('Explicit ids'), ('My shop')`;

/** Orders that are never changed again, by id, with an instant after their commit. */
type Confirmed = Map<number, bigint>;

it('claims no instant that the shop has passed, loses nothing and repeats nothing, whatever is killed', {
  tags: ['slow'],
  timeout: (seconds + 600) * 1_000,
}, async ({ directory }) => {
  console.log(`MAPPING_SEED=${seed}`);
  const random = createRandomSource('mapping', seed);
  const postgres = await startPostgresServer(directory);
  onTestFinished(postgres.remove);
  await postgres.pool.query(schema);
  const ending = new AbortController();
  const othersEnd = await startOtherWriters(postgres.pool, ending.signal);
  await applyMapping(postgres.pool, await readMapping(postgres.pool), {
    acceptDeletions: false,
    onProgress: () => {},
    signal: new AbortController().signal,
  });
  const dataDirectory = `${directory}/data`;
  let unexpected = '';
  const workers = startWorkers({
    count: 2,
    environment: {
      DATABASE_URL: postgres.url,
      DATA_DIR: dataDirectory,
      SYNC_POLL_INTERVAL_MS: '10',
    },
    randomFor: (index) => createRandomSource('mapping', seed, 'worker', index),
    onUnexpectedEnd: (output) => {
      unexpected = output;
    },
  });
  onTestFinished(workers.stop);
  const engine = await createTestDuckDBEngine(dataDirectory);
  onTestFinished(engine.close);
  const confirmed: Confirmed = new Map();
  const writing = [1, 2, 3].map((writer) =>
    write(
      postgres,
      createRandomSource('mapping', seed, 'writer', writer),
      writer,
      confirmed,
      ending.signal,
    ),
  );
  const instants = new Set<bigint>();
  const checking = check(engine, confirmed, instants, ending.signal);
  /** However slowly a worker starts, some faults wait until one has published. */
  const untilLaterInstant = async () => {
    const { size } = instants;
    const later = expect.poll(() => instants.size, { interval: 50 }).toBeGreaterThan(size);
    await Promise.race([later, checking]);
  };
  await untilLaterInstant();
  const deadline = performance.now() + seconds * 1_000;
  while (performance.now() < deadline || instants.size <= 5) {
    if (random.chance(0.3)) await untilLaterInstant();
    await sleep(random.between(300, 2_500));
    if (random.chance(0.7)) workers.signal(random.integer(2), 'SIGKILL');
    else if (random.chance(0.5)) await postgres.crash();
    else await postgres.killOneBackend().catch(() => {});
  }
  ending.abort();
  await Promise.all([...writing, othersEnd()]);
  await expect
    .poll(() =>
      postgres.pool.query('select').then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);
  await checking;
  await expect
    .poll(() => contents(engine), { interval: 200 })
    .toEqual(
      (await postgres.pool.query('select id::text, cents from store.orders order by id')).rows
        .map(({ id, cents }) => `${id} ${cents}`)
        .sort(),
    );
  await expectRowsOfOthers(postgres.pool);
  const { rows } = await postgres.pool.query(
    `select (select count(*) from customers where organization_id = 1 and name is not null) = (select count(*) from store.clients) as "areEqual",
       (select count(*)::int from mapping_failures) as failures`,
  );
  expect(rows).toEqual([{ areEqual: true, failures: 0 }]);
  expect(unexpected).toBe('');
});

type Engine = Awaited<ReturnType<typeof createTestDuckDBEngine>>;

/** The published orders, as ids and cents. */
async function contents(engine: Engine): Promise<string[]> {
  const { result } = await engine.list(1n, { filters: {}, limit: 100_000 });
  return result.purchases
    .map(
      ({ order_number, purchase_value_in_cents }) => `${order_number} ${purchase_value_in_cents}`,
    )
    .sort();
}

/**
 * Requires again and again that what is published has all orders that were confirmed before its instant, and
 * collects the instants.
 */
async function check(
  engine: Engine,
  confirmed: Confirmed,
  instants: Set<bigint>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const { result, asOf } = await engine.list(1n, { filters: {}, limit: 100_000 });
      const published = new Set(result.purchases.map(({ order_number }) => Number(order_number)));
      expect(published.size).toBe(result.purchases.length);
      const missing = [...confirmed].filter(([id, at]) => at < asOf && !published.has(id));
      expect(missing, `claimed ${asOf}`).toEqual([]);
      instants.add(asOf);
    } catch (error) {
      if (!(error instanceof NoGenerationError)) throw error;
    }
    await sleep(20);
  }
}

async function write(
  { pool }: PostgresServer,
  random: RandomSource,
  writer: number,
  confirmed: Confirmed,
  signal: AbortSignal,
): Promise<void> {
  for (let id = writer; !signal.aborted; id += 3) {
    await sleep(random.between(0, 60));
    try {
      await withConnection(pool, async (connection) => {
        await connection.query('rollback; begin');
        await connection.query('insert into store.clients values ($1, $2)', [id, `client ${id}`]);
        await connection.query('insert into store.orders values ($1, $2, $3, $4)', [
          id,
          random.chance(0.2) ? null : id,
          random.integer(10_000),
          random.chance(0.5) ? '2026-01-15' : '2026-02-15',
        ]);
        // Of another writer: rows that are changed, moved or deleted, and sometimes late commits.
        const [from, to] = [random.integer(id + 1), random.integer(50)];
        await connection.query(
          random.chance(0.3)
            ? `delete from store.clients where id % 3 = 0 and id between $1 and $1 + $2`
            : random.chance(0.5)
              ? `update store.orders set month = date '2026-02-20', cents = cents + 1 where id between $1 and $1 + $2`
              : `update store.clients set name = name || '!' where id between $1 and $1 + $2`,
          [from, to],
        );
        if (random.chance(0.1)) await sleep(random.between(0, 1_500));
        await connection.query(random.chance(0.1) ? 'rollback' : 'commit');
        const { rows } = await connection.query<{ now: bigint; is: boolean }>(
          `select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now,
             exists (select from store.orders where id = $1) as is`,
          [id],
        );
        if (rows[0]?.is === true) confirmed.set(id, rows[0].now);
      });
    } catch (error) {
      const isExpected =
        isConnectionLoss(error) ||
        (error instanceof pg.DatabaseError && /^(40P01|40001|23505|55P03)$/.test(error.code ?? ''));
      if (!isExpected) throw error;
    }
  }
}
