import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { purchaseColumns } from '../../src/domain/purchase.ts';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { isOfWriters, type WriterBatches } from '../../src/engines/clickhouse/relations.ts';
import { purchaseNames, table } from '../../src/engines/clickhouse/schema.ts';
import { linesById } from '../../src/purchase-store/format/log.ts';
import { isUpsert } from '../capture/changed-purchases.ts';
import { insertRows } from './insert.ts';

/** A batch of changes that nothing published names yet. */
export type ChangeBatch = {
  readonly writer: string;
  readonly tick: number;
  /** The load of the batch, if batches of other loads have the same writer and tick. */
  readonly loadId?: string;
};

/** The changes of an organization, as lines of a log (src/purchase-store/format/log.ts). */
export type LoadChanges = {
  readonly organizationId: bigint;
  readonly loadId: string;
  readonly lines: Buffer;
};

/** The maximum size of one insert. */
const partBytes = 16 * 2 ** 20;

const columns = [
  'organization_id',
  'load_id',
  'writer',
  'tick',
  'sign',
  ...purchaseColumns.map(({ name }) => name),
];
const changeColumns = raw(columns.join(', '));

/**
 * Adds the changed purchases as they are now to a batch, of all organizations together. Of deleted
 * purchases, it adds the ids.
 */
export async function insertCurrent(
  clickhouse: ClickHouse,
  batch: ChangeBatch,
  changes: readonly LoadChanges[],
  signal?: AbortSignal,
): Promise<void> {
  let part: Buffer[] = [];
  let bytes = 0;
  const flush = async () => {
    if (part.length === 0) return;
    await insertRows(clickhouse, 'purchase_change', columns, Buffer.concat(part), signal);
    part = [];
    bytes = 0;
  };
  for (const each of changes) {
    for (const row of rowsOf(each, batch)) {
      part.push(...row);
      for (const { length } of row) bytes += length;
      if (bytes >= partBytes) await flush();
    }
  }
  await flush();
}

/** A deleted purchase has an id, and no other values. */
const absent = Buffer.from(
  `${purchaseColumns
    .slice(1)
    .map(({ required }) => (required ? '\t0' : '\t\\N'))
    .join('')}\n`,
);

/**
 * The lines of a log are rows in the format TabSeparated: the columns before the id replace the mark.
 * Each row is in parts.
 */
function* rowsOf(
  { organizationId, loadId, lines }: LoadChanges,
  { writer, tick }: ChangeBatch,
): Generator<readonly Buffer[]> {
  const before = `${organizationId}\t${loadId}\t${writer}\t${tick}\t`;
  const [current, deleted] = [Buffer.from(`${before}1\t`), Buffer.from(`${before}0\t`)];
  // The last line of each purchase.
  for (const line of new Map(linesById(lines)).values()) {
    if (isUpsert(line)) yield [current, line.subarray(2)];
    else yield [deleted, line.subarray(2, -1), absent];
  }
}

/**
 * Adds the rows that a batch supersedes, with sign -1: those that `published` has of its purchases. One
 * statement for all organizations.
 */
export async function insertSuperseded(
  clickhouse: ClickHouse,
  { writer, tick, loadId }: ChangeBatch,
  published: readonly WriterBatches[],
  signal?: AbortSignal,
): Promise<void> {
  const inBatch = sql`from ${table.purchase_change} where writer = ${writer} and tick = ${BigInt(tick)}
    ${loadId === undefined ? empty : sql`and load_id = ${loadId}`}`;
  // The ids alone are read first: with the triple alone, the statement took three times as long.
  const isChanged = sql`id global in (select id ${inBatch}) and (organization_id, load_id, id)
    global in (select organization_id, load_id, id ${inBatch})`;
  await clickhouse.run(
    sql`
      insert into ${table.purchase_change} (${changeColumns})
      select organization_id, load_id, ${writer}, ${BigInt(tick)}, -1, ${purchaseNames}
      from (
        select *, max(at) over (partition by load_id, id) as newest
        from (
          select organization_id, load_id, ${purchaseNames}, ${beforeBatches} as at, 1 as sign
          from ${table.purchase} where ${isChanged}
          union all
          select organization_id, load_id, ${purchaseNames}, tick as at, sign
          from ${table.purchase_change} where ${isChanged} and ${isOfWriters(published)} and sign <> 0
        )
      )
      where at = newest and sign > 0`,
    signal,
  );
}

/** Batches of builds have the ticks -1 and 0. */
const beforeBatches = raw('toInt64(-2)');

/** Copies changes under another load or writer. Their ticks stay. */
export async function copyChanges(
  clickhouse: ClickHouse,
  condition: Sql,
  replaced: Sql,
): Promise<void> {
  await clickhouse.run(sql`
    insert into ${table.purchase_change} (${changeColumns})
    select * replace (${replaced}) from (
      select ${changeColumns} from ${table.purchase_change} where ${condition}
    )`);
}
