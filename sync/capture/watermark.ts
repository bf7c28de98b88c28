import { type DuckDBConnection, DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows, runStatement } from '../../src/duckdb/connection.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';

/** The state of the operational database that one transaction sees. */
export type SourceSnapshot = {
  /** `pg_snapshot` as text. */
  readonly snapshot: string;
  /** The start of the snapshot's transaction, in microseconds since 1970. */
  readonly asOf: bigint;
  /** The organization and its database (source-identity.ts). */
  readonly source: string;
  /** Timeline, table and triggers. While these stay the same, the log has all changes. */
  readonly fingerprint: string;
};

/** The snapshot that the rows of a file show; written in the same transaction as the rows. */
export type Watermark = SourceSnapshot & {
  readonly organizationId: bigint;
  /** Committed to the change log after the snapshot (history-token.ts). */
  readonly token: string;
};

/** A published generation. No other generation of the organization ever has its name. */
export type Generation = Omit<Watermark, 'organizationId'> & { readonly name: string };

/** A position in an organization's purchases, ordered by creation and id. */
export type PurchasePosition = { readonly createdAt: bigint; readonly id: bigint };

/** The progress of a load; written with the rows. */
export type LoadProgress = {
  /** A snapshot from before the first row. Later changes are applied after the last row. */
  readonly since: Watermark;
  /** The last row that was read; null before the first row. */
  readonly after: PurchasePosition | null;
  readonly loaded: number;
  /** The number of rows at the start of the load. */
  readonly expected: number;
};

/** The watermark of a delta, and the name of its base; null if the delta has another layout. */
export async function readWatermark(
  connection: DuckDBConnection,
  catalog: string,
): Promise<{ readonly watermark: Watermark; readonly base: string } | null> {
  const [row] = await queryRows(
    connection,
    sql`
      select organization_id, source, fingerprint, token, snapshot, epoch_us(as_of), base
      from ${raw(catalog)}.watermark where layout_version = ${layoutVersion}`,
  );
  return row === undefined ? null : { watermark: watermarkFrom(row), base: row[6] as string };
}

/** Writes the watermark of an empty delta. */
export async function createWatermark(
  connection: DuckDBConnection,
  catalog: string,
  base: string,
  { organizationId, source, fingerprint, token, snapshot, asOf }: Watermark,
): Promise<void> {
  await runStatement(
    connection,
    sql`
      insert into ${raw(catalog)}.watermark
        (layout_version, organization_id, base, source, fingerprint, token, snapshot, as_of)
      values (${layoutVersion}, ${organizationId}, ${base}, ${source}, ${fingerprint}, ${token},
        ${snapshot}, ${new DuckDBTimestampValue(asOf)})`,
  );
}

/** Moves the watermark of a delta. Call it within a transaction. */
export async function writeWatermark(
  connection: DuckDBConnection,
  catalog: string,
  { source, fingerprint, token, snapshot, asOf }: Watermark,
): Promise<void> {
  await runStatement(
    connection,
    sql`
      update ${raw(catalog)}.watermark set source = ${source}, fingerprint = ${fingerprint},
        token = ${token}, snapshot = ${snapshot}, as_of = ${new DuckDBTimestampValue(asOf)}`,
  );
}

/** Only the worker reads this table of a base. */
function createLoadProgress(catalog: string): string {
  return `
    create or replace table ${catalog}.load_progress (
      layout_version integer, organization_id bigint, source varchar, fingerprint varchar,
      token varchar, snapshot varchar, as_of timestamp, after_created_at timestamp,
      after_id bigint, loaded bigint, expected bigint
    )`;
}

/** Null if the file has no load, or another layout. */
export async function readLoadProgress(
  connection: DuckDBConnection,
  catalog: string,
): Promise<LoadProgress | null> {
  // Checking first whether the table exists would read every open file, and block closing them.
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

/** Call it within a transaction. */
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
