import { raw } from 'sql-template-tag';
import { unseenEntries } from '../capture/unseen-entries.ts';
import { mappingState } from '../connection/claimed-instant.ts';
import { databaseIdentity } from '../connection/source-identity.ts';

/** The snapshot in which the queue was last emptied; one before all transactions if that is of another database. */
const emptiedAt = raw(`coalesce(
    (select emptied_at from ${mappingState} as state where emptied_in = ${databaseIdentity}), '1:1:')`);

/** SQL of a table: the entries of mapping_changes that are not mapped, with their `ctid` as `entry`. */
export const queuedEntries = unseenEntries('mapping_changes', emptiedAt).text;

/** A statement that deletes the entries with this condition. */
export const deleteQueued = (condition: string): string => `
  delete from mapping_changes
  where ctid = any (array(select entry from ${queuedEntries} as queued where ${condition}))`;
