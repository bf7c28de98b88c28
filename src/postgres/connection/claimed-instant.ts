import sql, { raw, type Sql } from 'sql-template-tag';
import { microsecondsOf } from '../lists/instants.ts';

/**
 * SQL of the table mapping_state, for statements that run often. Each poll updates its row, and while a transaction
 * holds a snapshot, vacuum removes no version of it. The index has the present version first.
 */
export const mappingState =
  '(select ctid, * from mapping_state order by pg_snapshot_xmax(emptied_at) desc nulls last limit 1)';

/** All commits before it are mapped (mapping/map-changes.ts); null without a mapping. */
const mappedUntil = `(select as_of from ${mappingState} as state)`;
/** The instants of other organizations are this much earlier at most while a mapping is behind. */
const maxLag = `transaction_timestamp() - interval '1 second'`;

/**
 * SQL of the instant that a transaction may claim, in microseconds since 1970: all commits from before it
 * are visible. It also holds for mapped organizations while `laggingInstant` is null.
 */
export const claimedInstant = microsecondsOf(
  `(case when ${mappedUntil} is null then transaction_timestamp()
     else least(transaction_timestamp(), greatest(${mappedUntil}, ${maxLag})) end)`,
);

/** SQL of the earlier instant that holds for mapped organizations; null if that is `claimedInstant`. */
export const laggingInstant = microsecondsOf(
  `(select as_of from ${mappingState} as state where as_of < ${maxLag})`,
);

/**
 * A condition: the commits of the shop that a mapping has not seen may be of this organization. The first
 * rows of an organization without rows may come from a mapping.
 */
export const isMapped = (organizationId: Sql): Sql => sql`(
  exists (select from mapped_organizations as mapped where mapped.organization_id = ${organizationId})
  or not exists (select from customers where customers.organization_id = ${organizationId}))`;

/** All commits of the shop from before it are mapped; null if the organization is not mapped. */
export const mappedInstant = (organizationId: bigint): Sql =>
  sql`case when ${isMapped(sql`${organizationId}::bigint`)} then ${raw(mappedUntil)} end`;

/** A statement that reads the instant that a transaction may claim for an organization, as `instant`. */
export const claimedInstantOf = (organizationId: bigint): Sql => sql`
  select ${raw(microsecondsOf('claimed'))} as instant
  from (select least(transaction_timestamp(), ${mappedInstant(organizationId)}) as claimed) as instants`;
