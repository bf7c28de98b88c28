-- The change log that the sync worker reads. Triggers (src/postgres/capture/capture.sql) append the purchases
-- that a transaction changes, with its 64-bit transaction id. The worker compares this id with the
-- snapshot that it has published, so a transaction that commits late is read exactly once.

create table purchase_changes (
  organization_id bigint not null,
  purchase_id bigint,
  transaction_id xid8 not null,
  -- Not null: no change, but a token that the worker adds after it has taken a snapshot, and keeps
  -- beside the rows of that snapshot. If the log does not have the token, this is a restored copy of
  -- the database or the log was emptied, and the history does not include the snapshot.
  token uuid
);
-- Rows are appended, read once and deleted. The default waits for 20 % of dead rows.
alter table purchase_changes set (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 100000
);

-- At most one row. Entries of transactions before `pruned_below` may be gone. A reader whose snapshot
-- is older must read the table purchases again.
create table purchase_change_pruning (
  is_singleton boolean primary key default true check (is_singleton),
  pruned_below xid8 not null
);

-- Entries of `retain_from` and of later transactions are retained, for a reader that was seen during
-- the last day.
create table purchase_change_readers (
  -- The data folder and the shard of a worker.
  name text primary key,
  retain_from xid8 not null,
  seen_at timestamptz not null default now()
);
