-- What `status` shows of comparisons of all rows.
alter table mapping_state
  -- Why one is due; null without a cause.
  add column comparison_reason text,
  -- The one that runs: `since`, `reason`, `rows` that are compared, `expectedRows`. Null if none runs.
  add column comparison jsonb;
-- Of an entry without key and row: why a comparison is asked for.
alter table mapping_changes add column reason text;
