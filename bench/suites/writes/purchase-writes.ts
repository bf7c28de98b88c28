import { performance } from 'node:perf_hooks';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import sql, { raw } from 'sql-template-tag';
import { purchaseColumns } from '../../../src/domain/purchase.ts';
import { median } from '../../measure/statistics.ts';

/** Something that writers do to purchases. */
export type PurchaseWrite = {
  readonly name: string;
  readonly isUpdate: boolean;
  /** Microseconds per row, as the writer waits for them. */
  measure(): Promise<number>;
};

export type PurchaseWrites = {
  /** In the order of a turn: the deletes take what the inserts before them have added. */
  readonly writes: readonly PurchaseWrite[];
  /** After a turn: leaves the table as it was, without dead rows. */
  tidyUp(): Promise<void>;
};

export type WriteSizes = {
  /** Statements of one row in a turn. */
  readonly singles: number;
  /** Rows of one statement. */
  readonly bulk: number;
};

const columns = [
  'organization_id',
  ...purchaseColumns.map(({ name }) => name).filter((name) => name !== 'id'),
].join(', ');

/** The writes of one connection to a table that nobody else writes to. */
export async function createPurchaseWrites(
  connection: pg.PoolClient,
  { singles, bulk }: WriteSizes,
): Promise<PurchaseWrites> {
  const { firstId, lastId } = await seededIds(connection);
  const block = { first: firstId, last: firstId + BigInt(bulk) - 1n };
  // The same few rows again and again, as recent purchases are: their pages have room.
  const busyId = (index: number) => block.last + 1n + BigInt(index);
  const lines = await copyLines(connection, block);
  let addedIds: bigint[] = [];

  const addOne = async (index: number) => {
    const { rows } = await connection.query<{ id: bigint }>(sql`
      insert into purchases (${raw(columns)})
      select ${raw(columns)} from purchases where id = ${busyId(index)}
      returning id`);
    addedIds.push(...rows.map(({ id }) => id));
  };
  const addBlock = () =>
    connection.query(sql`
      insert into purchases (${raw(columns)})
      select ${raw(columns)} from purchases where id between ${block.first} and ${block.last}`);
  const update = (first: bigint, last: bigint) =>
    connection.query(sql`
      update purchases
      set payment_status = 'paid', purchase_value_in_cents = purchase_value_in_cents + 1,
        updated_at = now()
      where id between ${first} and ${last}`);
  const removeOne = (index: number) =>
    connection.query(sql`delete from purchases where id = ${addedIds[index]}`);
  const removeAdded = () => connection.query(sql`delete from purchases where id > ${lastId}`);

  const one = (name: string, run: (index: number) => Promise<unknown>): PurchaseWrite => ({
    name: `${name} of 1`,
    isUpdate: name === 'update',
    // The median: one statement that had to wait for somebody else would outweigh all others.
    measure: async () => {
      const times: number[] = [];
      for (let index = 0; index < singles; index += 1) {
        times.push(await microseconds(() => run(index)));
      }
      return median(times);
    },
  });
  const many = (name: string, run: () => Promise<unknown>): PurchaseWrite => ({
    name: `${name} of ${bulk.toLocaleString('en')}`,
    isUpdate: name === 'update',
    measure: async () => (await microseconds(run)) / bulk,
  });
  return {
    writes: [
      one('insert', addOne),
      one('update', (index) => update(busyId(index), busyId(index))),
      one('delete', removeOne),
      many('insert', addBlock),
      many('update', () => update(block.first, block.last)),
      many('delete', removeAdded),
      many('COPY', () =>
        pipeline([lines], connection.query(copyFrom(`copy purchases (${columns}) from stdin`))),
      ),
    ],
    async tidyUp() {
      addedIds = [];
      await removeAdded();
      await connection.query('truncate purchase_changes');
      await connection.query('vacuum purchases');
    },
  };
}

async function microseconds(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) * 1000;
}

async function seededIds(connection: pg.PoolClient) {
  const { rows } = await connection.query<{ first: bigint; last: bigint }>(
    'select min(id) as first, max(id) as last from purchases',
  );
  const { first, last } = rows[0] as { first: bigint; last: bigint };
  return { firstId: first, lastId: last };
}

/** Purchases as the lines of a COPY that adds them once more. COPY itself takes no parameters. */
async function copyLines(
  connection: pg.PoolClient,
  block: { readonly first: bigint; readonly last: bigint },
): Promise<string> {
  await connection.query(
    `select set_config('bench.first_id', $1, false), set_config('bench.last_id', $2, false)`,
    [String(block.first), String(block.last)],
  );
  const statement = `
    copy (
      select ${columns} from purchases
      where id between current_setting('bench.first_id')::bigint
        and current_setting('bench.last_id')::bigint
    ) to stdout`;
  return text(connection.query(copyTo(statement)));
}
