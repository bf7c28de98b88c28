/** The state of the operational database that one transaction sees. */
export type SourceSnapshot = {
  /** `pg_snapshot` as text. */
  readonly snapshot: string;
  /** The start of the snapshot's transaction, in microseconds since 1970. */
  readonly asOf: bigint;
  /** The identity of the database (src/postgres/connection/source-identity.ts). */
  readonly database: string;
  /** Organizations whose instants a mapping delays; null or missing if there are none. */
  readonly mapped?: MappedOrganizations | null;
  /** Timeline, table and triggers. While these stay the same, the change log has all changes. */
  readonly fingerprint: string;
};

/** A snapshot that a worker has read, so that later changes can be read since it. */
export type Watermark = SourceSnapshot & {
  /** Committed to the change log after the snapshot (history-token.ts). */
  readonly token: string;
};

/** The database of a source: a source is the identity of a database, a slash, and that of an organization. */
export const databaseOf = (source: string): string => source.slice(0, source.lastIndexOf('/'));

export type MappedOrganizations = {
  /** All commits of the shop from before it are mapped, in microseconds since 1970. */
  readonly asOf: bigint;
  readonly ids: ReadonlySet<bigint>;
};

/** The instant of a snapshot for an organization: earlier while its mapping is behind. */
const instantFor = (
  { asOf, mapped }: Pick<SourceSnapshot, 'asOf' | 'mapped'>,
  organizationId: bigint,
): bigint => (mapped?.ids.has(organizationId) === true && mapped.asOf < asOf ? mapped.asOf : asOf);

/** The watermark of an organization that has the changes of a snapshot. */
export const watermarkFor = (watermark: Watermark, organizationId: bigint): Watermark => ({
  ...watermark,
  asOf: instantFor(watermark, organizationId),
});
