-- The worker reads only entries that the snapshot in which it has last emptied the queue did not see, by
-- mapping_changes_by_transaction: while a transaction holds a snapshot, vacuum removes no deleted entry.
alter table mapping_changes add column transaction_id xid8 not null default pg_current_xact_id();
alter table mapping_state
  -- No entry remains that this snapshot sees; null before.
  add column emptied_at pg_snapshot,
  -- The database of the snapshot (src/postgres/connection/source-identity.ts). Ids of transactions mean others elsewhere.
  add column emptied_in text;
-- The row is updated several times a second, and found by mapping_state_by_snapshot. Before each of these updates, a
-- unique index on a constant would read all versions that vacuum has not removed.
alter table mapping_state drop constraint mapping_state_pkey, reset (fillfactor);
