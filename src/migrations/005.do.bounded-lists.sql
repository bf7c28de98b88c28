-- What keeps every list and search of customers to a few milliseconds, however
-- many customers there are and wherever in a list's order the wanted ones lie.

-- Searches. The trigram index knew runs of three letters or digits, in a locale of C
-- not even of all scripts: anything shorter, and signs, made it read everything. These
-- grams are three characters of whatever kind from every place of a text (fewer at its
-- end), so that each part of a text, however short, is a gram or the beginning of one.
-- No lexemes of a language, although the type is made for those: it is the one whose
-- index finds beginnings.
create function search_grams(text) returns tsvector
language plpgsql immutable strict parallel safe as $$
declare
  cut constant text := chr(30);
  -- A tsvector ends at a megabyte, which nobody's name reaches: writing must not fail.
  uncut text := translate(left($1, 50000), cut, ' ');
  grams text[] := '{}';
begin
  -- Three times cut up from end to end: twice as quick as a loop over the characters.
  for start in 1 .. 3 loop
    grams := grams
      || string_to_array(regexp_replace(substr(uncut, start), '(...)', '\1' || cut, 'g'), cut);
  end loop;
  return array_to_tsvector(array_remove(grams, ''));
end $$;

-- Grams that every text has which contains the given one. Five of them, spread over
-- it, are enough: reading more of the index's lists takes longer than comparing the
-- few texts that are left. The lists of what follows an @ are the longest of all.
create function search_gram_query(text) returns tsquery
language plpgsql immutable strict parallel safe as $$
declare
  folded text := regexp_replace(
    translate(search_form($1), chr(30), ' '), '^([^@]{6,}@).*', '\1');
  last_place integer := greatest(length(folded) - 3, 0);
  steps integer := greatest(least(ceil(last_place / 3.0), 4), 1);
  -- Less than a gram is the beginning of some.
  suffix text := case when length(folded) < 3 then ':*' else '' end;
begin
  return (
    select string_agg(distinct quoted || suffix, ' & ')
    from generate_series(0, steps) as step,
      substr(folded, 1 + last_place * step / steps, 3) as gram,
      concat('''', regexp_replace(gram, '([\\''])', '\\\1', 'g'), '''') as quoted
    where gram <> '')::tsquery;
end $$;

-- With the organization in the same index, a search never reads another
-- organization's rows. Each search also reads all changes that wait to be put in
-- order, some thousand of them in the usual four megabytes.
create index customers_by_search_grams on customers
  using gin (organization_id, search_grams(search_text)) with (gin_pending_list_limit = 1024);
create index segments_by_search_grams on segments
  using gin (organization_id, search_grams(search_text)) with (gin_pending_list_limit = 1024);
-- No plan depends on how often a gram or a text occurs: gathering that would make up
-- most of an ANALYZE.
alter index customers_by_search_grams alter column 2 set statistics 0;
alter index segments_by_search_grams alter column 2 set statistics 0;
alter table customers alter column search_text set statistics -1;

-- The customers of a tag and of a segment. What their lists are sorted by stands beside
-- each link, so that a list is one walk along one index: looked up in the customers, it
-- took a walk past all customers without the tag, or a sort of all with it.
alter table customer_tags
  add column customer_created_at timestamptz,
  add column customer_updated_at timestamptz,
  add column customer_total_spent_in_cents bigint;
alter table segment_customers
  add column customer_created_at timestamptz,
  add column customer_updated_at timestamptz,
  add column customer_total_spent_in_cents bigint;

-- For links. The lock is what keeps copies true: it waits for whoever is changing the
-- customer, and whoever changes it later waits for this link and finds it. (Changes at
-- REPEATABLE READ do not find links added since their snapshot: such a link's copy is
-- true again from the customer's next change on.)
create function copy_sort_keys_of_customer() returns trigger
language plpgsql security definer as $$
begin
  select created_at, updated_at, total_spent_in_cents
    into new.customer_created_at, new.customer_updated_at, new.customer_total_spent_in_cents
    from customers where id = new.customer_id for share;
  if not found then
    raise foreign_key_violation
      using message = format('there is no customer %s to link', new.customer_id);
  end if;
  return new;
end $$;

-- For customers. Read anew, not from NEW: a trigger before this one may have changed
-- the row once more.
create function pass_on_sort_keys() returns trigger
language plpgsql security definer as $$
begin
  update customer_tags set
      customer_created_at = created_at,
      customer_updated_at = updated_at,
      customer_total_spent_in_cents = total_spent_in_cents
    from customers where customers.id = new.id and customer_id = new.id;
  update segment_customers set
      customer_created_at = created_at,
      customer_updated_at = updated_at,
      customer_total_spent_in_cents = total_spent_in_cents
    from customers where customers.id = new.id and customer_id = new.id;
  return null;
end $$;

-- As in 002: a session's temporary tables can take no table's place.
do $$
declare name text;
begin
  foreach name in array array['copy_sort_keys_of_customer', 'pass_on_sort_keys'] loop
    execute format('alter function %I() set search_path to %I, pg_temp', name, current_schema());
  end loop;
end $$;

create trigger copy_sort_keys before insert or update of customer_id on customer_tags
  for each row execute function copy_sort_keys_of_customer();
create trigger copy_sort_keys before insert or update of customer_id on segment_customers
  for each row execute function copy_sort_keys_of_customer();
-- By value, not `of` columns: a trigger may change columns that the statement does not.
create trigger pass_on_sort_keys after update on customers
  for each row when (
    (old.created_at, old.updated_at, old.total_spent_in_cents)
    is distinct from (new.created_at, new.updated_at, new.total_spent_in_cents))
  execute function pass_on_sort_keys();
-- Also under session_replication_role = replica, and for rows that logical
-- replication writes.
alter table customer_tags enable always trigger copy_sort_keys;
alter table segment_customers enable always trigger copy_sort_keys;
alter table customers enable always trigger pass_on_sort_keys;

-- Only now, with customers locked by the trigger's creation, can no change be missed.
-- The old indexes would be written for every row.
drop index customer_tags_by_tag;
drop index segment_customers_by_customer;
alter table segment_customers drop constraint segment_customers_pkey;
update customer_tags set
    customer_created_at = created_at,
    customer_updated_at = updated_at,
    customer_total_spent_in_cents = total_spent_in_cents
  from customers where id = customer_id;
update segment_customers set
    customer_created_at = created_at,
    customer_updated_at = updated_at,
    customer_total_spent_in_cents = total_spent_in_cents
  from customers where id = customer_id;
alter table customer_tags
  alter column customer_created_at set not null,
  alter column customer_updated_at set not null,
  alter column customer_total_spent_in_cents set not null;
alter table segment_customers
  alter column customer_created_at set not null,
  alter column customer_updated_at set not null,
  alter column customer_total_spent_in_cents set not null;

-- The customer first, as in customer_tags: the other way about, the indexes below serve.
alter table segment_customers add primary key (customer_id, segment_id);
create index customer_tags_by_creation
  on customer_tags (tag_id, customer_created_at, customer_id);
create index customer_tags_by_update
  on customer_tags (tag_id, customer_updated_at, customer_id);
create index customer_tags_by_total_spent
  on customer_tags (tag_id, customer_total_spent_in_cents, customer_id);
create index segment_customers_by_creation
  on segment_customers (segment_id, customer_created_at, customer_id);
create index segment_customers_by_update
  on segment_customers (segment_id, customer_updated_at, customer_id);
create index segment_customers_by_total_spent
  on segment_customers (segment_id, customer_total_spent_in_cents, customer_id);

-- Last, because it keeps readers out until the end.
drop index customers_by_search_text;
drop index segments_by_search_text;
