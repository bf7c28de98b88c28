-- Every role may append to the queue while a mapping is applied (src/postgres/mapping/triggers.ts), because
-- triggers have the rights of the writer.
alter table mapping_changes
  add constraint mapping_changes_view_check check (view in ('mapped_customers', 'mapped_purchases'));
