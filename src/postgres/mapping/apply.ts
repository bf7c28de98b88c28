import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../connection/pool.ts';
import { createComparison } from './comparison.ts';
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
const lockTimeoutMs = 60_000;
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
export async function applyMapping(
  database: Database,
  mapping: Mapping,
  { acceptDeletions, onProgress, signal }: ApplyOptions,
): Promise<Mapped> {
  await withConnection(
    database,
    async (connection) => {
      await prepare(connection, mapping);
      await restoreTriggersBetweenWriters(connection, signal);
    },
    signal,
  );
  const total = nothingMapped();
  let structure = '';
  let asked = 0n;
  let rows = 0;
  const comparison = createComparison(mapping, { limit: copiedAtOnce, acceptDeletions });
  for (let isDone = false; !isDone; ) {
    const step = await inMappingTransaction(
      database,
      async (connection) => {
        if (structure === '') {
          structure = await readStructure(connection);
          asked = await readAsked(connection);
        }
        return comparison.step(connection);
      },
      { signal, lockTimeoutMs },
    );
    isDone = step === null;
    rows += step?.rows ?? 0;
    total.written += step?.written ?? 0;
    total.deleted += step?.deleted ?? 0;
    onProgress(rows);
  }
  await inMappingTransaction(
    database,
    async (connection) => {
      await connection.query(
        `update mapping_state set structure = case when asked = $2 then $1 end, compared_at = now(),
           copied_at = coalesce(copied_at, now()), problem = null, problem_since = null`,
        [structure, asked],
      );
      await mapChanges(connection, mapping);
    },
    { signal, lockTimeoutMs },
  );
  return total;
}

/** How often changes have asked for a comparison: a later one may have taken place behind the copy. */
async function readAsked(connection: Connection): Promise<bigint> {
  const { rows } = await connection.query<{ asked: bigint }>('select asked from mapping_state');
  return rows[0]?.asked ?? 0n;
}

const prepare = (connection: Connection, mapping: Mapping): Promise<void> =>
  inTransaction(connection, async () => {
    for (const view of mappedViews) await createNumbers(connection, mapping, view);
    await connection.query('insert into mapping_state default values on conflict do nothing');
  });

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
  await connection.query(`create table if not exists ${numbers} (id bigint not null)`);
  await keepType(connection, mapping, { numbers, column: 'external_id', view });
  if (isPurchases) {
    const column = 'customer_external_id';
    await keepType(connection, mapping, { numbers, column, view: 'mapped_customers' });
  }
  await connection.query(
    `create unique index if not exists ${numbers}_by_external_id on ${numbers} (external_id);
     ${isPurchases ? `create index if not exists ${numbers}_by_customer on ${numbers} (customer_external_id)` : ''}`,
  );
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
