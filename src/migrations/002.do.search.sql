-- Functions of the searches (`q`) of customers and segments, and of the filter `phone`. The owner of a
-- database may create both extensions.
create extension if not exists unaccent;
create extension if not exists btree_gin;

-- A text without case and accents, composed or combining. Immutable unless the rules of unaccent are
-- edited. Names are qualified, so that it works under any search_path: a restore sets its own.
do $do$
declare
  -- An extension that exists may be in any schema.
  unaccent_schema text := (
    select nspname from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
    where extname = 'unaccent');
begin
  execute format(
    $statement$
      create function search_form(text) returns text
      language plpgsql immutable strict parallel safe as $function$
      begin
        return lower(%I.unaccent(%L::regdictionary, normalize($1)));
      end $function$
    $statement$,
    unaccent_schema, format('%I.unaccent', unaccent_schema));
end $do$;

-- The LIKE pattern of texts that contain the given one. It is escaped after normalization, which turns
-- full-width characters into plain ones.
create function search_pattern(text) returns text
language sql immutable strict parallel safe as $$
  select '%' || regexp_replace(search_form($1), '([\\%_])', '\\\1', 'g') || '%'
$$;

-- The three characters from each position of a text, fewer at its end. So each part of a text, also a
-- short one, is a gram or the beginning of one. A tsvector, because its index finds beginnings. The
-- index of pg_trgm finds no text of less than three characters, and no punctuation.
create function search_grams(text) returns tsvector
language plpgsql immutable strict parallel safe as $$
declare
  cut constant text := chr(30);
  -- A tsvector has at most a megabyte. A longer text must not fail.
  uncut text := translate(left($1, 50000), cut, ' ');
  grams text[] := '{}';
begin
  -- Three passes over the text take half of the time of a loop over its characters.
  for start in 1 .. 3 loop
    grams := grams
      || string_to_array(regexp_replace(substr(uncut, start), '(...)', '\1' || cut, 'g'), cut);
  end loop;
  return array_to_tsvector(array_remove(grams, ''));
end $$;

-- Up to five grams of each text that contains the given one. More grams take longer to read from the
-- index than the comparison of the few texts that are left. Grams after an @ are the most frequent.
create function search_gram_query(text) returns tsquery
language plpgsql immutable strict parallel safe as $$
declare
  folded text := regexp_replace(
    translate(search_form($1), chr(30), ' '), '^([^@]{6,}@).*', '\1');
  last_place integer := greatest(length(folded) - 3, 0);
  steps integer := greatest(least(ceil(last_place / 3.0), 4), 1);
  -- A shorter text is the beginning of grams.
  suffix text := case when length(folded) < 3 then ':*' else '' end;
begin
  return (
    select string_agg(distinct quoted || suffix, ' & ')
    from generate_series(0, steps) as step,
      substr(folded, 1 + last_place * step / steps, 3) as gram,
      concat('''', regexp_replace(gram, '([\\''])', '\\\1', 'g'), '''') as quoted
    where gram <> '')::tsquery;
end $$;

-- The last 32 digits of a phone number in reverse, so that numbers with the same end begin alike. The
-- filter has at most 32 characters.
create function reversed_digits(text) returns text
language sql immutable strict parallel safe as $$
  select left(reverse(regexp_replace($1, '[^0-9]', '', 'g')), 32)
$$;
