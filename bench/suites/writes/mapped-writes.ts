import type pg from 'pg';
import type { Connection } from '../../../src/postgres/connection/pool.ts';
import { restoreTriggers } from '../../../src/postgres/mapping/triggers.ts';
import { inRounds, time } from '../../measure/rounds.ts';
import { median, ratioOf, summaryOf } from '../../measure/statistics.ts';
import { ownRows, ownTables } from '../mapping/own-tables.ts';

const singles = 300;
const bulk = 5_000;

/** A shop's own tables: with triggers of a mapping, and equal ones without. */
const schemas = { with: 'mapped', without: 'unmapped' } as const;

type Write = {
  readonly name: string;
  /** Milliseconds of a statement. */
  measure(schema: string): Promise<number>;
};

/**
 * The cost of the triggers of a mapping for a shop's own writes, in tables with and without partitions.
 * A transaction each, as a shop writes.
 */
export async function measureMappedWrites(
  connection: pg.PoolClient,
  orders: number,
  rounds: { readonly rounds: number; readonly warmUps: number; readonly signal: AbortSignal },
) {
  const figures = [];
  for (const isPartitioned of [false, true]) {
    await createTables(connection, isPartitioned, orders);
    for (const { name, measure } of createWrites(connection, orders)) {
      const tasks = {
        with: () => measure(schemas.with),
        without: () => measure(schemas.without),
      };
      const times = await inRounds(tasks, rounds);
      figures.push({
        write: `${name}${isPartitioned ? ', partitioned' : ''}`,
        with: summaryOf(times.with, (ms) => ms),
        without: summaryOf(times.without, (ms) => ms),
        ratio: ratioOf(times.with, times.without, (ms) => ms),
      });
    }
  }
  return figures;
}

async function createTables(
  connection: Connection,
  isPartitioned: boolean,
  orders: number,
): Promise<void> {
  for (const schema of Object.values(schemas)) {
    await connection.query(
      `drop schema if exists ${schema} cascade; ${ownTables(schema, isPartitioned)} ${ownRows(schema, orders)}`,
    );
  }
  await connection.query(`
    delete from mapping_sources;
    insert into mapping_sources (view, source, key) values
      ('mapped_customers', '${schemas.with}.clients', 'id'),
      ('mapped_purchases', '${schemas.with}.orders', 'id')`);
  await restoreTriggers(connection, { lockTimeoutMs: 5_000, areOthersDropped: true });
}

function createWrites(connection: Connection, orders: number): Write[] {
  let next = orders;
  const at = `'2024-01-01Z'::timestamptz + random() * interval '700 days'`;
  const insert = (schema: string, count: number) => {
    const first = next + 1;
    next += count;
    return connection.query(
      `insert into ${schema}.orders (id, client_id, total, placed_at)
       select i, md5((i % 1000)::text)::uuid, 12.34, ${at} from generate_series($1::bigint, $2) as i`,
      [first, next],
    );
  };
  const each = async (work: () => Promise<unknown>) => {
    const times: number[] = [];
    for (let index = 0; index < singles; index += 1) times.push((await time(work)).wall);
    return median(times);
  };
  const once = async (work: () => Promise<unknown>) => {
    await connection.query('truncate mapping_changes');
    return (await time(work)).wall;
  };
  const update = (schema: string, count: number) =>
    connection.query(
      `update ${schema}.orders set total = total + 0.01 where id between $1::bigint and $1 + $2::bigint - 1`,
      [1 + Math.floor(Math.random() * (orders - count)), count],
    );
  return [
    { name: 'insert of 1', measure: (schema) => each(() => insert(schema, 1)) },
    { name: 'update of 1', measure: (schema) => each(() => update(schema, 1)) },
    { name: `insert of ${bulk}`, measure: (schema) => once(() => insert(schema, bulk)) },
    { name: `update of ${bulk}`, measure: (schema) => once(() => update(schema, bulk)) },
  ];
}
