import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../connection/pool.ts';
import { type Compared, compareView } from './comparison.ts';
import { compareAmongChanges, copyFromBothEnds, lockTimeoutMs } from './copy.ts';
import { mapChanges } from './map-changes.ts';
import { type Mapped, nothingMapped } from './map-rows.ts';
import {
  keyTypeOf,
  type MappedView,
  type Mapping,
  mappedViews,
  numberTables,
} from './mapping-definition.ts';
import { inMappingTransaction } from './mapping-transaction.ts';
import { readStructure } from './structure.ts';
import { restoreTriggers } from './triggers.ts';

/** Rows of one transaction of a copy. */
const copiedAtOnce = 5_000;
/** Writers of the shop wait behind a waiting lock, so it waits for a second, again and again. */
const triggerLock = { timeoutMs: 1_000, attempts: 30 };

export type ApplyOptions = {
  readonly acceptDeletions: boolean;
  /** Called after each transaction with the rows of both views that are compared so far. */
  readonly onProgress: (rows: number) => void;
  readonly signal: AbortSignal;
};

/**
 * Creates what the mapping needs, and maps all rows. Idempotent: what exists stays, and only what differs
 * is written, so an interrupted copy goes on where it was, as fast as rows are compared.
 */
export const applyMapping = (
  database: Database,
  mapping: Mapping,
  options: ApplyOptions,
): Promise<Mapped> =>
  withConnection(
    database,
    (connection) =>
      inTransaction(connection, async () => {
        // Another call waits until this one has ended.
        await connection.query('lock table mapping_state in share update exclusive mode');
        await createObjects(database, mapping, options.signal);
        return mapAll(database, mapping, options);
      }),
    options.signal,
  );

/** Creates the tables, functions and triggers that are missing. Reads no row of the shop. */
export const createObjects = (
  database: Database,
  mapping: Mapping,
  signal: AbortSignal,
): Promise<void> =>
  withConnection(
    database,
    async (connection) => {
      await inTransaction(connection, async () => {
        for (const view of mappedViews) await createNumbers(connection, mapping, view);
        await connection.query('insert into mapping_state default values on conflict do nothing');
      });
      await restoreTriggersBetweenWriters(connection, signal);
    },
    signal,
  );

async function mapAll(
  database: Database,
  mapping: Mapping,
  { acceptDeletions, onProgress, signal }: ApplyOptions,
): Promise<Mapped> {
  const transaction = <Result>(work: (connection: Connection) => Promise<Result>) =>
    inMappingTransaction(database, work, { signal, lockTimeoutMs });
  const { isCopied, asked, structure } = await transaction(readState);
  const total = nothingMapped();
  let rows = 0;
  const count = (compared: Compared) => {
    rows += compared.rows;
    total.written += compared.written;
    total.deleted += compared.deleted;
    onProgress(rows);
  };
  for (const view of mappedViews) {
    const comparison = compareView(mapping, view, { limit: copiedAtOnce, acceptDeletions });
    const copy = { database, mapping, comparison, signal, count };
    await (isCopied ? compareAmongChanges(copy) : copyFromBothEnds(copy, view));
    count({ ...(await transaction(comparison.end)), rows: 0 });
  }
  await transaction(async (connection) => {
    await connection.query(
      `update mapping_state set structure = case when asked = $2 then $1 end, compared_at = now(),
         copied_at = coalesce(copied_at, now()), problem = null, problem_since = null`,
      [structure, asked],
    );
    await mapChanges(connection, mapping);
  });
  return total;
}

/** What to know before a copy. */
async function readState(connection: Connection) {
  const { rows } = await connection.query<{ isCopied: boolean; asked: bigint }>(
    'select copied_at is not null as "isCopied", asked from mapping_state',
  );
  return {
    isCopied: rows[0]?.isCopied ?? false,
    /** How often changes have asked for a comparison: a later one may have taken place behind the copy. */
    asked: rows[0]?.asked ?? 0n,
    structure: await readStructure(connection),
  };
}

async function restoreTriggersBetweenWriters(
  connection: Connection,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await restoreTriggers(connection, {
        lockTimeoutMs: triggerLock.timeoutMs,
        areOthersDropped: true,
      });
      return;
    } catch (error) {
      const isLocked = error instanceof pg.DatabaseError && error.code === '55P03';
      if (!isLocked || attempt === triggerLock.attempts) throw error;
      await sleep(triggerLock.timeoutMs, undefined, { signal });
    }
  }
}

/** A table with the type and collation of the view's external ids, or with its new ones. */
async function createNumbers(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
): Promise<void> {
  const numbers = numberTables[view];
  const isPurchases = view === 'mapped_purchases';
  // With `if not exists`, Postgres asks for the right to create also if the table exists.
  await createUnlessExists(connection, numbers, `table ${numbers} (id bigint not null)`);
  await keepType(connection, mapping, { numbers, column: 'external_id', view });
  if (isPurchases) {
    const column = 'customer_external_id';
    await keepType(connection, mapping, { numbers, column, view: 'mapped_customers' });
  }
  const byKey = `${numbers}_by_external_id`;
  await createUnlessExists(connection, byKey, `unique index ${byKey} on ${numbers} (external_id)`);
  if (!isPurchases) return;
  const byCustomer = `${numbers}_by_customer`;
  await createUnlessExists(
    connection,
    byCustomer,
    `index ${byCustomer} on ${numbers} (customer_external_id)`,
  );
}

async function createUnlessExists(
  connection: Connection,
  name: string,
  definition: string,
): Promise<void> {
  const known = await connection.query('select where to_regclass($1) is not null', [name]);
  if (known.rowCount === 0) await connection.query(`create ${definition}`);
}

type KeyColumn = { readonly numbers: string; readonly column: string; readonly view: MappedView };

/**
 * Adds a column for the external ids of a view, or gives it the type and collation that they have now. It
 * has no length, because that of the view's column may grow.
 */
async function keepType(
  connection: Connection,
  mapping: Mapping,
  { numbers, column, view }: KeyColumn,
): Promise<void> {
  const wanted = keyTypeOf(mapping, view);
  const { rows } = await connection.query<{
    type: string | null;
    isCollated: boolean | null;
    collation: string | null;
  }>(
    `select format_type(known.atttypid, known.atttypmod) as type,
       known.attcollation = wanted.attcollation as "isCollated",
       (select format('collate %I.%I', nspname, collname)
        from pg_collation join pg_namespace on pg_namespace.oid = collnamespace
        where pg_collation.oid = wanted.attcollation) as collation
     from pg_attribute as wanted left join pg_attribute as known
       on known.attrelid = to_regclass($1) and known.attname = $2 and not known.attisdropped
     where wanted.attrelid = to_regclass($3) and wanted.attname = 'external_id'`,
    [numbers, column, view],
  );
  const { type = null, isCollated = null, collation = null } = rows[0] ?? {};
  if (type === wanted && isCollated === true) return;
  const definition = `${wanted} ${collation ?? ''}`;
  await connection.query(
    type === null
      ? `alter table ${numbers} add column ${column} ${definition}`
      : `alter table ${numbers} alter column ${column} type ${definition} using ${column}::text::${wanted}`,
  );
}
