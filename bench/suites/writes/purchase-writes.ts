import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import sql, { raw } from 'sql-template-tag';
import { purchaseColumns } from '../../../src/domain/purchase.ts';
import { time } from '../../measure/rounds.ts';
import { median } from '../../measure/statistics.ts';

/** A kind of write to purchases. */
export type PurchaseWrite = {
  readonly name: string;
  readonly isUpdate: boolean;
  /** Returns microseconds per row, from request to response. */
  measure(): Promise<number>;
};

type PurchaseWrites = {
  /** In order: the deletes remove the rows that the inserts before them have added. */
  readonly writes: readonly PurchaseWrite[];
  /** Restores the table, without dead rows. */
  restore(): Promise<void>;
};

type WriteSizes = {
  /** The number of statements with one row. */
  readonly singles: number;
  /** The number of rows of a large statement. */
  readonly bulk: number;
};

const columnNames = [
  'organization_id',
  ...purchaseColumns.map(({ name }) => name).filter((name) => name !== 'id'),
].join(', ');
const columns = raw(columnNames);

/** The writes of one connection. No other connection writes to the table. */
export async function createPurchaseWrites(
  connection: pg.PoolClient,
  { singles, bulk }: WriteSizes,
): Promise<PurchaseWrites> {
  const seeded = await connection.query<{ first: bigint; last: bigint }>(
    'select min(id) as first, max(id) as last from purchases',
  );
  const { first, last } = seeded.rows[0] as { first: bigint; last: bigint };
  const bulkLast = first + BigInt(bulk) - 1n;
  // The same few rows again and again, like recent purchases: their pages have free space.
  const singleId = (index: number) => bulkLast + 1n + BigInt(index);
  // COPY takes no parameters. A bigint is only digits.
  const lines = await text(
    connection.query(
      copyTo(
        `copy (select ${columnNames} from purchases where id between ${first} and ${bulkLast}) to stdout`,
      ),
    ),
  );
  let addedIds: bigint[] = [];

  const insertOne = async (index: number) => {
    const { rows } = await connection.query<{ id: bigint }>(sql`
      insert into purchases (${columns})
      select ${columns} from purchases where id = ${singleId(index)}
      returning id`);
    addedIds.push(...rows.map(({ id }) => id));
  };
  const insertBulk = () =>
    connection.query(sql`
      insert into purchases (${columns})
      select ${columns} from purchases where id between ${first} and ${bulkLast}`);
  const update = (from: bigint, to: bigint) =>
    connection.query(sql`
      update purchases
      set payment_status = 'paid', purchase_value_in_cents = purchase_value_in_cents + 1,
        updated_at = now()
      where id between ${from} and ${to}`);
  const deleteOne = (index: number) =>
    connection.query(sql`delete from purchases where id = ${addedIds[index]}`);
  const deleteAdded = () => connection.query(sql`delete from purchases where id > ${last}`);
  const copy = () =>
    pipeline([lines], connection.query(copyFrom(`copy purchases (${columnNames}) from stdin`)));

  const single = (name: string, write: (index: number) => Promise<unknown>): PurchaseWrite => ({
    name: `${name} of 1`,
    isUpdate: name === 'update',
    // The median: a statement that waits for another process would dominate a mean.
    measure: async () => {
      const times: number[] = [];
      for (let index = 0; index < singles; index += 1) {
        times.push(1000 * (await time(() => write(index))).wall);
      }
      return median(times);
    },
  });
  const large = (name: string, write: () => Promise<unknown>): PurchaseWrite => ({
    name: `${name} of ${bulk.toLocaleString('en')}`,
    isUpdate: name === 'update',
    measure: async () => (1000 * (await time(write)).wall) / bulk,
  });
  return {
    writes: [
      single('insert', insertOne),
      single('update', (index) => update(singleId(index), singleId(index))),
      single('delete', deleteOne),
      large('insert', insertBulk),
      large('update', () => update(first, bulkLast)),
      large('delete', deleteAdded),
      large('COPY', copy),
    ],
    async restore() {
      addedIds = [];
      await deleteAdded();
      await connection.query('truncate purchase_changes');
      await connection.query('vacuum purchases');
    },
  };
}
