import { once } from 'node:events';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import sql from 'sql-template-tag';
import { purchaseColumns } from '../../src/domain/purchase.ts';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import {
  type Connection,
  type Database,
  withSnapshot,
} from '../../src/postgres/connection/pool.ts';
import { purchaseSelectList } from '../../src/postgres/lists/purchase-select-list.ts';
import type { BuildOptions } from '../builds/builder.ts';
import { setLocal } from '../capture/changed-purchases.ts';
import { confirmSnapshot } from '../capture/history-token.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import type { Watermark } from '../capture/watermark.ts';
import { insertRows } from './insert.ts';
import { describeLoad, type LoadDescription } from './merge-load.ts';

const columns = ['organization_id', 'load_id', ...purchaseColumns.map(({ name }) => name)];

// COPY takes no parameters, so the values are settings of the transaction.
const copyAll = `
  copy (
    select current_setting('sync.organization_id'), current_setting('sync.load_id'),
      ${purchaseSelectList}
    from purchases
    where organization_id = current_setting('sync.organization_id')::bigint
    order by created_at, id
  ) to stdout`;

type ClickHouseLoadOptions = {
  readonly database: Database;
  readonly clickhouse: ClickHouse;
  readonly organizationId: bigint;
  readonly loadId: string;
  readonly build: BuildOptions;
};

/**
 * Loads all purchases of one snapshot. ClickHouse reads the text that Postgres writes: both escape
 * it in the same way. Rejects if they count different numbers of rows.
 */
export async function loadIntoClickHouse(
  options: ClickHouseLoadOptions,
): Promise<LoadDescription & { readonly since: Watermark }> {
  const { database, clickhouse, organizationId, loadId, build } = options;
  const { now, copied } = await withSnapshot(database, async (connection) => {
    const now = await takeSnapshot(connection);
    build.onRetain(now.snapshot);
    const { rows } = await connection.query<{ count: bigint }>(
      sql`select count(*) as count from purchases where organization_id = ${organizationId}`,
    );
    const expected = Number(rows[0]?.count);
    build.onProgress({ loaded: 0, expected });
    await setLocal(connection, { organization_id: String(organizationId), load_id: loadId });
    const copied = await copy(connection, options, (loaded) =>
      build.onProgress({ loaded, expected }),
    );
    return { now, copied };
  });
  const since = await confirmSnapshot(database, now);
  const loaded = await describeLoad(clickhouse, loadId);
  // COPY reports the number of rows after the last row, so it is read after COMMIT.
  if (loaded.purchases === copied.rowCount) return { ...loaded, since };
  throw new Error('ClickHouse read another number of rows than Postgres wrote');
}

async function copy(
  connection: Connection,
  { clickhouse, build: { signal } }: ClickHouseLoadOptions,
  onRows: (loaded: number) => void,
): Promise<{ readonly rowCount: number }> {
  const rows = connection.query(copyTo(copyAll, { highWaterMark: partBytes }));
  let loaded = 0;
  const counted = new Transform({
    highWaterMark: partBytes,
    transform(part: Buffer, _encoding, callback) {
      loaded += linesOf(part);
      onRows(loaded);
      callback(null, part);
    },
  });
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  try {
    await Promise.all([
      pipeline(rows, counted, { signal: either }),
      // ClickHouse closes a connection after 30 s without data, and Postgres may sort for longer.
      once(counted, 'readable').then(() =>
        insertRows(clickhouse, 'purchase', columns, counted, either),
      ),
    ]);
  } catch (error) {
    failed.abort(error);
    counted.destroy();
    // The connection still receives rows of COPY, so it cannot be used again.
    void (connection as pg.Client).end();
    throw error;
  }
  return rows;
}

const partBytes = 2 ** 20;

/** A line break within a text is escaped. */
function linesOf(part: Buffer): number {
  let lines = 0;
  for (let at = part.indexOf(10); at !== -1; at = part.indexOf(10, at + 1)) lines += 1;
  return lines;
}
