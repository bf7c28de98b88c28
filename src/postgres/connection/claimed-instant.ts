import { microsecondsOf } from '../lists/instants.ts';

/** All commits before it are mapped (mapping/map-changes.ts); null without a mapping. */
const mappedUntil = '(select as_of from mapping_state)';

/**
 * SQL of the instant that a transaction may claim, in microseconds since 1970: all commits from before it
 * are visible, also those of tables that are mapped.
 */
export const claimedInstant = `least(
  ${microsecondsOf('transaction_timestamp()')}, ${microsecondsOf(mappedUntil)})`;
