import sql, { raw, type Sql } from 'sql-template-tag';
import type { Tick } from '../../purchase-store/ticks/published-tick.ts';
import { type ClickHouse, lacksTables } from './client.ts';
import type { WriterBatches } from './relations.ts';
import { table } from './schema.ts';

/** The tick that a worker published last. */
export type ClickHouseTick = Tick & {
  readonly number: bigint;
  /** The batches that queries read. */
  readonly writers: readonly WriterBatches[];
  /** The highest number of a change that the tick has. */
  readonly changesUntil: bigint;
  /** Changes with lower numbers may have been removed. */
  readonly changesSince: bigint;
};

/** The last ticks of all workers, also of those that ran with other shards. */
export const readClickHouseTicks = (
  clickhouse: ClickHouse,
  signal?: AbortSignal,
): Promise<ClickHouseTick[]> => read(clickhouse, raw('exceptions'), signal);

/** The same, without the exceptions of other organizations. */
export const readTicksFor = (
  clickhouse: ClickHouse,
  organizationId: bigint,
  signal?: AbortSignal,
): Promise<ClickHouseTick[]> => {
  const own = sql`arrayFilter(each -> each.organization_id = ${organizationId}, exceptions)`;
  return read(clickhouse, own, signal);
};

/** The same, without exceptions. */
export const readTicksOnly = (clickhouse: ClickHouse): Promise<ClickHouseTick[]> =>
  read(clickhouse, raw('[]'), undefined);

async function read(
  clickhouse: ClickHouse,
  exceptions: Sql,
  signal: AbortSignal | undefined,
): Promise<ClickHouseTick[]> {
  const statement = sql`
    select shard_of, shard_number, number, tick, as_of, snapshot, token, fingerprint, database,
      writers, ${exceptions}, changes_until, changes_since
    from ${table.tick} order by number desc limit 1 by shard_of, shard_number`;
  const rows = await clickhouse.query(statement, signal).catch((error) => {
    if (lacksTables(error)) return [];
    throw error;
  });
  return (rows as readonly unknown[] as TickRow[]).map(tickFrom);
}

type WatermarkRow = { readonly as_of: string; readonly snapshot: string; readonly token: string };

type TickRow = readonly [
  shardOf: number,
  shardNumber: number,
  number: string,
  tick: string,
  asOf: string,
  snapshot: string,
  token: string,
  fingerprint: string,
  database: string,
  writers: readonly { readonly writer: string; readonly last: string }[],
  exceptions: readonly (WatermarkRow & { readonly organization_id: string })[],
  changesUntil: string,
  changesSince: string,
];

function tickFrom(row: TickRow): ClickHouseTick {
  const [of, shard, number, tick, asOf, snapshot, token, fingerprint, database] = row;
  const [writers, exceptions, changesUntil, changesSince] = [row[9], row[10], row[11], row[12]];
  return {
    shard: { number: shard, of },
    tick: Number(tick),
    asOf: BigInt(asOf),
    snapshot,
    token,
    exceptions: Object.fromEntries(
      exceptions.map(({ organization_id: id, as_of: asOf, snapshot, token }) => [
        id,
        { asOf: BigInt(asOf), snapshot, token },
      ]),
    ),
    fingerprint,
    database,
    number: BigInt(number),
    writers: writers.map(({ writer, last }) => ({ writer, last: BigInt(last) })),
    changesUntil: BigInt(changesUntil),
    changesSince: BigInt(changesSince),
  };
}
