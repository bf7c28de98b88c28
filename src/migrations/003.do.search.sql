-- What the customers' and segments' searches (`q`) and the customers' `phone`
-- filter read. All three extensions are trusted: whoever may create objects in
-- the database may create them.
create extension if not exists pg_trgm;
create extension if not exists unaccent;
create extension if not exists btree_gin;

do $migration$
declare
  -- Extensions that were there before may live in any schema.
  trigram_schema text := (
    select nspname from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
    where extname = 'pg_trgm');
  unaccent_schema text := (
    select nspname from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
    where extname = 'unaccent');
begin
  -- Text as searches compare it: case and accents aside, composed and combining
  -- ones alike. Immutable as long as nobody edits unaccent's rules; if they change,
  -- the columns below must be computed anew. Every name in it is qualified, so that
  -- it works under any search_path: a restore and a maintenance command set their own.
  execute format(
    $statement$
      create function search_form(text) returns text
      language plpgsql immutable strict parallel safe as $function$
      begin
        return lower(%I.unaccent(%L::regdictionary, normalize($1)));
      end $function$
    $statement$,
    unaccent_schema, format('%I.unaccent', unaccent_schema));

  -- Stored, because a search compares thousands of candidates: computing the form
  -- takes ten times as long as comparing it. U+001F, which nobody types, keeps a
  -- search from matching the end of one field and the start of the next.
  alter table customers add column search_text text generated always as (
    search_form(coalesce(name, '') || chr(31) || coalesce(email, '') || chr(31) || coalesce(phone, ''))
  ) stored;
  alter table segments add column search_text text generated always as (
    search_form(coalesce(name, '') || chr(31) || coalesce(description, ''))
  ) stored;

  -- Whether a search is common (walk the list's order until the page is full) or rare
  -- (ask the index) is told from the column's statistics: the usual hundred samples
  -- take one match by chance for a hundredth of all rows.
  alter table customers alter column search_text set statistics 500;

  -- With the organization in the same index, a search never reads another
  -- organization's rows.
  execute format(
    'create index customers_by_search_text on customers
     using gin (organization_id, search_text %I.gin_trgm_ops)',
    trigram_schema);
  execute format(
    'create index segments_by_search_text on segments
     using gin (organization_id, search_text %I.gin_trgm_ops)',
    trigram_schema);
end $migration$;

-- What `search_text` is like if it contains the text. Escaped after folding, which
-- turns full-width signs into plain ones: %, _ and \ stand for themselves.
create function search_pattern(text) returns text
language sql immutable strict parallel safe as $$
  select '%' || regexp_replace(search_form($1), '([\\%_])', '\\\1', 'g') || '%'
$$;

-- A number's digits, last one first: numbers that end alike begin alike. No more
-- of them than the filter's 32 characters, whatever somebody stored as a phone.
create function reversed_digits(text) returns text
language sql immutable strict parallel safe as $$
  select left(reverse(regexp_replace($1, '[^0-9]', '', 'g')), 32)
$$;
create index customers_by_phone_end
  on customers (organization_id, reversed_digits(phone) text_pattern_ops);
