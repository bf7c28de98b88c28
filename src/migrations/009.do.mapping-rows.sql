-- Changed rows of a source whose keys other tables decide: the keys are found when the changes are mapped,
-- because a query at the time of a write does not see what other transactions write.
alter table mapping_changes
  -- The table, as the name of its function has it; null for a key.
  add column source text,
  add column row jsonb;
