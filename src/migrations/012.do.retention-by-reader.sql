-- A worker has one watermark for all of its organizations, so the change log is retained and
-- pruned for all organizations at once. Altered instead of replaced: the rights on them stay.
delete from purchase_change_readers;
alter table purchase_change_readers
  drop column data_folder_id,
  drop column organization_id,
  -- The data folder and the shard of a worker. Entries of `retain_from` and of later transactions
  -- are retained, for a reader that was seen during the last day.
  add column name text primary key;

delete from purchase_change_pruning;
alter table purchase_change_pruning
  drop column organization_id,
  -- There is at most one row. Entries of transactions before `pruned_below` may be gone.
  add column is_singleton boolean primary key default true check (is_singleton);
