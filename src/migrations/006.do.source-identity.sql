-- What tells a copy of purchases whether it still belongs to what it was read from.

-- An id may be given to another company: by a database that was created anew, or after a
-- restore to a moment before the organization was created. This is never given twice.
alter table organizations add column identity uuid not null default gen_random_uuid();

-- An entry with a token is no change. The worker adds it after it has taken a snapshot and
-- keeps the token beside the rows of that snapshot. As long as the log has the token, the
-- history of this database includes that snapshot: a restored copy, or a change log that
-- was emptied, does not have it.
alter table purchase_changes add column token uuid;

-- The triggers that write the log are in src/postgres/capture.sql. TRUNCATE needs none: it
-- gives the table another file node, and with that another fingerprint.
drop function log_truncated_purchases cascade;
delete from purchase_changes where organization_id is null;
delete from purchase_change_pruning where organization_id = 0;
alter table purchase_changes
  alter column organization_id set not null;
