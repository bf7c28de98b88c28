-- Change data capture for the table purchases: triggers append to purchase_changes which
-- purchases a transaction touched. `migrate` runs this file whenever the database does not
-- have exactly these functions and triggers (capture.ts).
--
-- Statement-level triggers log what ordinary sessions write: one statement for any number
-- of rows. They do not fire where session_replication_role is `replica`, which is how
-- logical replication applies rows and how some restore tools write. Logical replication
-- fires row-level triggers only, so one row-level trigger, enabled for replicas alone,
-- logs those writes. Each write fires one kind or the other, never both.
--
-- Nothing logs TRUNCATE: it gives the table another file node, which the worker compares.
--
-- Writes through a parent table fire no statement trigger of its children. Postgres refuses a
-- parent for a table that has a row trigger with a transition table, also if it is disabled.

create or replace function log_inserted_purchases() returns trigger
language plpgsql security definer as $$
begin
  insert into purchase_changes (organization_id, purchase_id, transaction_id)
    select organization_id, id, pg_current_xact_id() from new_purchases;
  return null;
end $$;

create or replace function log_updated_purchases() returns trigger
language plpgsql security definer as $$
begin
  -- Both sides: a row may have moved to another organization or taken another id.
  insert into purchase_changes (organization_id, purchase_id, transaction_id)
    select organization_id, id, pg_current_xact_id() from old_purchases
    union
    select organization_id, id, pg_current_xact_id() from new_purchases;
  return null;
end $$;

create or replace function log_deleted_purchases() returns trigger
language plpgsql security definer as $$
begin
  insert into purchase_changes (organization_id, purchase_id, transaction_id)
    select organization_id, id, pg_current_xact_id() from old_purchases;
  return null;
end $$;

create or replace function log_replicated_purchases() returns trigger
language plpgsql security definer as $$
begin
  if tg_op <> 'INSERT' then
    insert into purchase_changes (organization_id, purchase_id, transaction_id)
      values (old.organization_id, old.id, pg_current_xact_id());
  end if;
  if tg_op = 'INSERT'
    or (tg_op = 'UPDATE' and (old.organization_id, old.id) <> (new.organization_id, new.id))
  then
    insert into purchase_changes (organization_id, purchase_id, transaction_id)
      values (new.organization_id, new.id, pg_current_xact_id());
  end if;
  return null;
end $$;

-- A session's temporary tables come last: none can take the log's place.
do $$
declare name text;
begin
  foreach name in array array['inserted', 'updated', 'deleted', 'replicated'] loop
    execute format('alter function log_%s_purchases() set search_path to %I, pg_temp',
      name, current_schema());
    execute format('drop trigger if exists log_%s_purchases on purchases', name);
  end loop;
  drop trigger if exists purchases_without_parent on purchases;
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
create trigger log_replicated_purchases after insert or update or delete on purchases
  for each row execute function log_replicated_purchases();
create trigger purchases_without_parent after delete on purchases
  referencing old table as old_purchases
  for each row execute function log_deleted_purchases();

alter table purchases enable replica trigger log_replicated_purchases;
alter table purchases disable trigger purchases_without_parent;
