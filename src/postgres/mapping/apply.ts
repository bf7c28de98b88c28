import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../connection/pool.ts';
import { claimComparison } from './as-of.ts';
import { type Compared, compareView, createComparison } from './comparison.ts';
import { repeatAfterConflicts } from './contention.ts';
import { copyFromBothEnds, lockTimeoutMs } from './copy.ts';
import { mapChanges } from './map-changes.ts';
import { type Mapped, nothingMapped } from './map-rows.ts';
import { keyTypeOf, type Mapping, mappedViews, numberTables } from './mapping-definition.ts';
import { inMappingTransaction } from './mapping-transaction.ts';
import { readStructure } from './structure.ts';
import { restoreTriggers, triggerLock } from './triggers.ts';

/** Rows of one transaction of a copy. */
const copiedAtOnce = 5_000;

type ApplyOptions = {
  readonly acceptDeletions: boolean;
  /** Called after each transaction with the rows of both views that are compared so far. */
  readonly onProgress: (rows: number) => void;
  readonly signal: AbortSignal;
};

export type Applied = {
  /** Tables whose triggers were missing. */
  readonly triggered: readonly string[];
  /** What a comparison of all rows has changed; null if it is left to the worker. */
  readonly mapped: Mapped | null;
};

/**
 * Creates what the mapping needs, and makes the first copy. Idempotent: what exists stays, and only what differs
 * is written, so an interrupted copy goes on where it was, as fast as rows are compared. After the copy, the
 * worker compares rows if they may differ, unless deletions are to be accepted.
 */
export const applyMapping = (
  database: Database,
  mapping: Mapping,
  options: ApplyOptions,
): Promise<Applied> =>
  withConnection(
    database,
    (connection) =>
      inTransaction(connection, async () => {
        // Another call waits until this one has ended.
        await connection.query('lock table mapping_state in share update exclusive mode');
        const triggered = await createObjects(database, mapping, options.signal);
        const { rowCount } = await connection.query(
          'select from mapping_state where copied_at is not null',
        );
        const isLeftToWorker = rowCount !== 0 && !options.acceptDeletions;
        return {
          triggered,
          mapped: isLeftToWorker ? null : await mapAll(database, mapping, options),
        };
      }),
    options.signal,
  );

/** Creates the functions and triggers that are missing, and returns the tables with new ones. Reads no row of the shop. */
export const createObjects = (
  database: Database,
  mapping: Mapping,
  signal: AbortSignal,
): Promise<string[]> =>
  withConnection(
    database,
    async (connection) => {
      await inTransaction(connection, async () => {
        // The table has at most one row, and no constraint for that (migration 014).
        await connection.query(
          `lock table mapping_held_deletions in share update exclusive mode;
           insert into mapping_state select where not exists (select from mapping_state)`,
        );
        await keepKeyTypes(connection, mapping);
      });
      return restoreTriggers(connection, { ...triggerLock, areOthersDropped: true, signal });
    },
    signal,
  );

async function mapAll(
  database: Database,
  mapping: Mapping,
  { acceptDeletions, onProgress, signal }: ApplyOptions,
): Promise<Mapped> {
  const transaction = <Result>(work: (connection: Connection) => Promise<Result>) =>
    repeatAfterConflicts(() => inMappingTransaction(database, work, { signal, lockTimeoutMs }));
  const { isCopied, ...begin } = await transaction(readState);
  const total = nothingMapped();
  let rows = 0;
  const count = (compared: Compared) => {
    rows += compared.rows;
    total.written += compared.written;
    total.deleted += compared.deleted;
    onProgress(rows);
  };
  const options = { limit: copiedAtOnce, acceptDeletions };
  if (isCopied) {
    const comparison = createComparison(mapping, options);
    // Changes are mapped as well, because the worker, which cannot map now, would delay them.
    const step = async (connection: Connection) => {
      await mapChanges(connection, mapping);
      return comparison.step(connection);
    };
    for (let each = await transaction(step); each !== null; each = await transaction(step))
      count(each);
  } else {
    for (const view of mappedViews) {
      const comparison = compareView(mapping, view, options);
      await copyFromBothEnds({ database, comparison, signal, count }, view);
      count({ ...(await transaction(comparison.end)), rows: 0 });
    }
  }
  await transaction(async (connection) => {
    await claimComparison(connection, begin);
    await connection.query(
      `update mapping_state set copied_at = coalesce(copied_at, now()), problem = null, problem_since = null`,
    );
    await mapChanges(connection, mapping);
  });
  return total;
}

/** What to know before a copy. */
async function readState(connection: Connection) {
  const { rows } = await connection.query<{ isCopied: boolean; asked: bigint; at: Date }>(
    'select copied_at is not null as "isCopied", asked, transaction_timestamp() as at from mapping_state',
  );
  const { isCopied, asked, at } = rows[0] ?? { isCopied: false, asked: 0n, at: new Date(0) };
  return { isCopied, asked, at, structure: await readStructure(connection) };
}

/** The columns of the number tables with external ids, and their view. */
const keyColumns = [
  { view: 'mapped_customers', numbers: numberTables.mapped_customers, column: 'external_id' },
  { view: 'mapped_purchases', numbers: numberTables.mapped_purchases, column: 'external_id' },
  {
    view: 'mapped_customers',
    numbers: numberTables.mapped_purchases,
    column: 'customer_external_id',
  },
] as const;
type KeyColumn = (typeof keyColumns)[number];

async function keepKeyTypes(connection: Connection, mapping: Mapping): Promise<void> {
  for (const column of keyColumns) await keepType(connection, mapping, column);
}

/**
 * Gives a column the type and collation that the external ids have now: the order of both decides the ranges
 * of comparisons. It has no length, because that of the view's column may grow.
 */
async function keepType(
  connection: Connection,
  mapping: Mapping,
  { numbers, column, view }: KeyColumn,
): Promise<void> {
  const wanted = keyTypeOf(mapping, view);
  const { rows } = await connection.query<{
    type: string;
    isCollated: boolean;
    collation: string | null;
  }>(
    `select format_type(known.atttypid, known.atttypmod) as type,
       known.attcollation = wanted.attcollation as "isCollated",
       (select format('collate %I.%I', nspname, collname)
        from pg_collation join pg_namespace on pg_namespace.oid = collnamespace
        where pg_collation.oid = wanted.attcollation) as collation
     from pg_attribute as wanted join pg_attribute as known
       on known.attrelid = to_regclass($1) and known.attname = $2
     where wanted.attrelid = to_regclass($3) and wanted.attname = 'external_id'`,
    [numbers, column, view],
  );
  const [{ type, isCollated, collation } = { type: wanted, isCollated: true, collation: null }] =
    rows;
  if (type === wanted && isCollated) return;
  await connection.query(
    `alter table ${numbers} alter column ${column} type ${wanted} ${collation ?? ''}
     using ${column}::text::${wanted}`,
  );
}
