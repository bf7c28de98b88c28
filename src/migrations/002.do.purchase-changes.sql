-- The change log that the sync worker reads. Triggers append which purchases a
-- transaction touched, with the transaction's 64-bit id; the worker compares
-- that id with the snapshot it last applied, so a transaction that commits
-- late is neither missed nor read twice. No index, no sequence and no NOTIFY:
-- writers pay for one append per row and for nothing else.

create table purchase_changes (
  -- Null in both columns: the whole table was truncated.
  organization_id bigint,
  purchase_id bigint,
  transaction_id xid8 not null
);
-- Rows are appended, read once and deleted: reclaim early, not at 20 % dead.
alter table purchase_changes set (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 100000
);

-- How far each organization's entries have been pruned: those with a smaller
-- transaction id may be gone. A reader whose snapshot reaches below it must read
-- the table anew. Organization 0 stands for the entries about all of them.
create table purchase_change_pruning (
  organization_id bigint primary key,
  pruned_below xid8 not null
);

-- What each data folder still needs of an organization's entries: a bound for
-- pruning, never a position to read from (that one lives beside the rows it
-- describes). Folders not seen for a day are no longer waited for.
create table purchase_change_readers (
  data_folder_id uuid not null,
  organization_id bigint not null,
  retain_from xid8 not null,
  seen_at timestamptz not null default now(),
  primary key (organization_id, data_folder_id)
);

create function log_inserted_purchases() returns trigger
language plpgsql security definer as $$
begin
  insert into purchase_changes
    select organization_id, id, pg_current_xact_id() from new_purchases;
  return null;
end $$;

create function log_updated_purchases() returns trigger
language plpgsql security definer as $$
begin
  -- Both sides: a row may have moved to another organization or taken another id.
  insert into purchase_changes
    select organization_id, id, pg_current_xact_id() from old_purchases
    union
    select organization_id, id, pg_current_xact_id() from new_purchases;
  return null;
end $$;

create function log_deleted_purchases() returns trigger
language plpgsql security definer as $$
begin
  insert into purchase_changes
    select organization_id, id, pg_current_xact_id() from old_purchases;
  return null;
end $$;

create function log_truncated_purchases() returns trigger
language plpgsql security definer as $$
begin
  insert into purchase_changes values (null, null, pg_current_xact_id());
  return null;
end $$;

-- A session's temporary tables come last: none can take the log's place.
do $$
declare name text;
begin
  foreach name in array array['inserted', 'updated', 'deleted', 'truncated'] loop
    execute format('alter function log_%s_purchases() set search_path to %I, pg_temp',
      name, current_schema());
  end loop;
end $$;

create trigger log_inserted_purchases after insert on purchases
  referencing new table as new_purchases
  for each statement execute function log_inserted_purchases();
create trigger log_updated_purchases after update on purchases
  referencing old table as old_purchases new table as new_purchases
  for each statement execute function log_updated_purchases();
create trigger log_deleted_purchases after delete on purchases
  referencing old table as old_purchases
  for each statement execute function log_deleted_purchases();
create trigger log_truncated_purchases after truncate on purchases
  for each statement execute function log_truncated_purchases();

-- Also under session_replication_role = replica. Logical replication into this
-- table fires no statement triggers, and is not seen.
alter table purchases enable always trigger log_inserted_purchases;
alter table purchases enable always trigger log_updated_purchases;
alter table purchases enable always trigger log_deleted_purchases;
alter table purchases enable always trigger log_truncated_purchases;
