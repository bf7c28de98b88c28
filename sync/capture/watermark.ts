import { type DuckDBConnection, DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';

/** A moment of the operational database: everything one transaction sees. */
export type SourceSnapshot = {
  /** `pg_snapshot` as text. */
  readonly snapshot: string;
  /** When it was taken, or a moment before; microseconds since 1970. */
  readonly asOf: bigint;
  /** Which organization of which database it was taken for (source-identity.ts). */
  readonly source: string;
  /** Timeline, table and triggers. While it stays the same, all changes are in the log. */
  readonly fingerprint: string;
};

/** What the rows of a file show; written with them, in the same transaction. */
export type Watermark = SourceSnapshot & {
  readonly organizationId: bigint;
  /** Committed to the change log after the last row was read (history-token.ts). */
  readonly token: string;
};

/** A place in an organization's purchases, ordered by creation and id. */
export type PurchasePosition = { readonly createdAt: bigint; readonly id: bigint };

/** How far a load has come; written with the rows. A file has this or a watermark. */
export type LoadProgress = {
  /** A snapshot from before the first row was read: what it cannot see is applied at the end. */
  readonly since: Watermark;
  /** The last row that was read; null before the first. */
  readonly after: PurchasePosition | null;
  readonly loaded: number;
  /** How many rows there were when the load began. */
  readonly expected: number;
};

/** Null where no load was completed, or by a version with another layout. */
export async function readWatermark(
  connection: DuckDBConnection,
  catalog: string,
): Promise<Watermark | null> {
  const [row] = await queryRows(
    connection,
    sql`
      select organization_id, source, fingerprint, token, snapshot, epoch_us(as_of)
      from ${raw(catalog)}.watermark where layout_version = ${layoutVersion}`,
  );
  return row === undefined ? null : watermarkFrom(row);
}

/** To be called within a transaction. */
export async function writeWatermark(
  connection: DuckDBConnection,
  catalog: string,
  { organizationId, source, fingerprint, token, snapshot, asOf }: Watermark,
): Promise<void> {
  const asOfValue = new DuckDBTimestampValue(asOf);
  // Not deleted and written anew: a deleted row costs whoever opens the file a quarter of a MiB.
  const [updated] = await queryRows(
    connection,
    sql`
      update ${raw(catalog)}.watermark set
        layout_version = ${layoutVersion}, organization_id = ${organizationId},
        source = ${source}, fingerprint = ${fingerprint}, token = ${token},
        snapshot = ${snapshot}, as_of = ${asOfValue}`,
  );
  if (updated?.[0] === 1n) return;
  await queryRows(
    connection,
    sql`
      insert into ${raw(catalog)}.watermark
        (layout_version, organization_id, source, fingerprint, token, snapshot, as_of)
      values (${layoutVersion}, ${organizationId}, ${source}, ${fingerprint}, ${token},
        ${snapshot}, ${asOfValue})`,
  );
}

/** No part of the layout: a file that is complete, which alone readers see, has none. */
export function createLoadProgress(catalog: string): string {
  return `
    create or replace table ${catalog}.load_progress (
      layout_version integer, organization_id bigint, source varchar, fingerprint varchar,
      token varchar, snapshot varchar, as_of timestamp, after_created_at timestamp, after_id bigint, loaded bigint, expected bigint
    )`;
}

/** Of a file without a watermark; null where no load was begun, or one with another layout. */
export async function readLoadProgress(
  connection: DuckDBConnection,
  catalog: string,
): Promise<LoadProgress | null> {
  // To look first whether the table is there would look into every other file that is open,
  // and nobody could close or check those meanwhile.
  const [row] = await queryRows(
    connection,
    sql`
      select organization_id, source, fingerprint, token, snapshot, epoch_us(as_of),
        epoch_us(after_created_at), after_id, loaded, expected
      from ${raw(catalog)}.load_progress where layout_version = ${layoutVersion}`,
  );
  if (row === undefined) return null;
  const [createdAt, id, loaded, expected] = row.slice(6) as [bigint | null, bigint, bigint, bigint];
  return {
    since: watermarkFrom(row),
    after: createdAt === null ? null : { createdAt, id },
    loaded: Number(loaded),
    expected: Number(expected),
  };
}

/** To be called within a transaction. */
export async function writeLoadProgress(
  connection: DuckDBConnection,
  catalog: string,
  { since, after, loaded, expected }: LoadProgress,
): Promise<void> {
  await connection.run(createLoadProgress(catalog));
  await queryRows(
    connection,
    sql`
      insert into ${raw(catalog)}.load_progress
      values (${layoutVersion}, ${since.organizationId}, ${since.source}, ${since.fingerprint},
        ${since.token}, ${since.snapshot}, ${new DuckDBTimestampValue(since.asOf)},
        ${after === null ? null : new DuckDBTimestampValue(after.createdAt)},
        ${after === null ? null : after.id}, ${BigInt(loaded)}, ${BigInt(expected)})`,
  );
}

/** Turns a load's progress into a watermark; to be called within a transaction. */
export async function completeLoad(
  connection: DuckDBConnection,
  catalog: string,
  watermark: Watermark,
): Promise<void> {
  await connection.run(`drop table if exists ${catalog}.load_progress`);
  await writeWatermark(connection, catalog, watermark);
}

function watermarkFrom(row: readonly unknown[]): Watermark {
  const [organizationId, source, fingerprint, token, snapshot, asOf] = row as [
    bigint,
    string,
    string,
    string,
    string,
    bigint,
  ];
  return { organizationId, source, fingerprint, token, snapshot, asOf };
}
