import type pg from 'pg';
import sql, { raw, type Sql } from 'sql-template-tag';
import { runStatement } from '../../src/duckdb/connection.ts';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { supersededColumns } from '../../src/purchase-store/layout.ts';
import { streamChanges } from '../capture/changes.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { confirmSnapshot, takeSnapshot } from '../capture/snapshot.ts';
import { type Watermark, writeWatermark } from '../capture/watermark.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import { inTransaction } from '../files/transaction.ts';
import { type ChangedPurchase, stage } from './staging.ts';
import { stagedRowsOfBase } from './superseded-rows.ts';

/** Bytes of text that one transaction applies: DuckDB keeps them in memory until COMMIT. */
const partTextBytes = 64 * 2 ** 20;

/** Makes the snapshot of the changes durable, and returns its watermark. */
export type Confirm = () => Promise<Watermark>;

/**
 * Takes a snapshot of Postgres, applies the changes since the file's watermark, and runs `then` in
 * the same snapshot. Resolves with the number of changes, or with the reason why they cannot be
 * applied.
 */
export async function bringUpToDate(
  { database, organizationId }: { readonly database: Database; readonly organizationId: bigint },
  file: DeltaFile | null,
  signal: AbortSignal,
  then: (source: pg.ClientBase, confirm: Confirm, changes: number) => Promise<void>,
): Promise<number | string> {
  return withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source, organizationId);
    if (file === null) return 'nothing was loaded yet';
    const reason = await whyLogInsufficient(source, file.watermark, now);
    if (reason !== null) return reason;
    const confirm = () => confirmSnapshot(database, organizationId, now);
    const changes = await applyChanges(source, file, confirm, signal);
    await then(source, confirm, changes);
    return changes;
  });
}

/**
 * Applies the changes since the file's watermark, moves the watermark to the snapshot of
 * `source`, and returns the number of changes. Without changes the watermark stays.
 *
 * Changes with much text take several transactions. The last one moves the watermark; the
 * others move only its token. After a failure between them, some purchases are newer than the
 * watermark. The next call applies all changes since the watermark again, and nothing is
 * published before.
 */
async function applyChanges(
  source: pg.ClientBase,
  file: DeltaFile,
  confirm: Confirm,
  signal: AbortSignal,
): Promise<number> {
  const { organizationId, snapshot } = file.watermark;
  const changes = streamChanges(source, organizationId, snapshot);
  try {
    const first = await changes.next();
    signal.throwIfAborted();
    if (first.done) return 0;
    const watermark = await confirm();
    const previous = { ...file.watermark, token: watermark.token };
    const all = chain(first.value, changes);
    let count = 0;
    for (let isLast = false; !isLast; ) {
      await inTransaction(file.connection, async () => {
        const staged = await stage(file, all, signal, partTextBytes);
        isLast = staged.isLast;
        count += staged.purchases;
        await writeStaged(file);
        await writeWatermark(file.connection, file.catalogs.delta, isLast ? watermark : previous);
      });
    }
    file.watermark = watermark;
    return count;
  } finally {
    // The connection runs no other statement before the cursor is closed.
    await changes.return(undefined);
  }
}

async function* chain(
  first: ChangedPurchase,
  rest: AsyncIterable<ChangedPurchase>,
): AsyncGenerator<ChangedPurchase> {
  yield first;
  yield* rest;
}

/** Moves the watermark of a file that shows all changes. */
export async function moveWatermark(file: DeltaFile, confirm: Confirm): Promise<void> {
  const watermark = await confirm();
  await writeWatermark(file.connection, file.catalogs.delta, watermark);
  file.watermark = watermark;
}

/**
 * Writes the staged purchases: supersedes their rows of the base, and adds their current rows.
 * Also removes all other purchases that match `replaced`, a condition on the table `purchase`.
 * Call it within a transaction.
 */
export async function writeStaged(
  { connection, catalogs }: DeltaFile,
  replaced?: Sql,
): Promise<void> {
  const change = raw(`${catalogs.delta}.change`);
  const isStaged = sql`id in (select id from staged)`;
  const isReplaced = replaced === undefined ? isStaged : sql`(${replaced}) or ${isStaged}`;
  const superseded =
    replaced === undefined
      ? await stagedRowsOfBase(connection, catalogs)
      : sql`
          select ${raw(supersededColumns)} from ${raw(catalogs.base)}.purchase as purchase
          where (${isReplaced}) and id not in (select id from ${change} where sign < 0)`;
  if (superseded !== null) {
    await runStatement(
      connection,
      sql`insert into ${change} by name select -1 as sign, * from (${superseded})`,
    );
  }
  await runStatement(
    connection,
    sql`delete from ${change} as purchase where sign > 0 and (${isReplaced})`,
  );
  await connection.run(
    `insert into ${change.text} select 1, * exclude (present) from staged where present`,
  );
  await connection.run('drop table staged');
}
